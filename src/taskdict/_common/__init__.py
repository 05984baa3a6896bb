"""Services that every floor uses: validation of arguments, threads, atomic files, progress, random orders, pixels."""
