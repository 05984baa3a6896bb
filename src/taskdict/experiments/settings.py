"""Settings of an experiment, each declared once with its option on the command line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Self

from taskdict._common.argument_types import penalty


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return each value once, in their order."""
    return tuple(dict.fromkeys(values))


def ascending(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return each value once, the lowest first."""
    return tuple(sorted(set(values)))


def descending(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return each value once, the highest first."""
    return tuple(sorted(set(values), reverse=True))


@dataclass(frozen=True)
class Option:
    """An option on the command line.

    Attributes
    ----------
    flag : str
        Its name, such as ``--patch-size``.
    help : str
        One line of help.
    parse : callable or None
        The type of a value, as argparse uses it; None for an option with `choices` and for a switch.
    choices : tuple of str
        The values to choose from, if there are only some.
    several : bool
        Whether the option takes several values.
    collect : callable
        Maps several values to a tuple.
    selects : bool
        Whether the option selects a variant of the experiment. Such an option is applied first, because the other
        defaults may depend on it, and is part of the default name of the output folder.
    """

    flag: str
    help: str
    parse: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()
    several: bool = False
    collect: Callable[[Iterable[Any]], tuple[Any, ...]] = distinct
    selects: bool = False

    @property
    def destination(self) -> str:
        """Name of the attribute that argparse stores the value in."""
        return self.flag.removeprefix("--").replace("-", "_")

    def add_to(self, parser: Any) -> None:
        """Add the option to a parser."""
        if self.choices:
            parser.add_argument(self.flag, choices=self.choices, help=self.help)
        elif self.parse is None:
            parser.add_argument(self.flag, action="store_true", help=self.help)
        else:
            parser.add_argument(
                self.flag,
                type=self.parse,
                nargs="+" if self.several else None,
                metavar="X" if self.parse is penalty else "N",
                help=self.help,
            )

    def is_given(self, options: Mapping[str, Any]) -> bool:
        """Return whether the option is among the parsed ones."""
        return options.get(self.destination) not in (None, False)


def setting(default: Any, option: Option) -> Any:
    """Return a field of a dataclass of settings that an option can set."""
    return field(default=default, metadata={"option": option})


@dataclass(frozen=True)
class Settings(ABC):
    """The settings of an experiment: a subclass is a frozen dataclass, whose fields are made by :func:`setting`.

    A field without an option cannot be set on the command line.
    """

    is_small: bool = field(default=False, kw_only=True)  # whether these are those of the small version

    @abstractmethod
    def quick(self) -> Self:
        """Return a small version of the same experiment."""

    @property
    def is_always_quick(self) -> bool:
        """Whether only the small version makes sense."""
        return False

    @classmethod
    def variant(cls, **selected: Any) -> Self:
        """Return the default settings of the variant that options select."""
        return cls(**selected)

    def check(self, given: Collection[str]) -> None:  # noqa: B027 (most settings need none)
        """Raise ValueError for settings that make no sense; `given` has the flags of the options that were given."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any], *, quick: bool, flag: str | None) -> Self:
        """Return the settings that options on the command line ask for.

        Parameters
        ----------
        options : mapping
            The values of the options by their destinations, None if they were not given.
        quick : bool
            Whether the small version is wanted.
        flag : str or None
            The option that selects this experiment, for errors.
        """
        selected: dict[str, Any] = {}
        others: dict[str, Any] = {}
        given = set()
        for each, option in _fields_with_options(cls):
            if option.is_given(options):
                given.add(option.flag)
                (selected if option.selects else others)[each.name] = _value(each, option, options, flag)
        settings = cls.variant(**selected)
        if quick or settings.is_always_quick:
            settings = replace(settings.quick(), is_small=True)
        settings = replace(settings, **others)
        settings.check(given)
        return settings

    @classmethod
    def options(cls) -> list[Option]:
        """Return the options of all settings."""
        return [option for _, option in _fields_with_options(cls)]

    def variant_words(self) -> list[str]:
        """Return the words that name this variant of the experiment."""
        words = []
        for each, option in _fields_with_options(type(self)):
            value = getattr(self, each.name)
            if option.selects and value is not False:
                words.append(option.destination if value is True else str(value))
        return words


def _fields_with_options(cls: type[Settings]) -> Iterator[tuple[Field[Any], Option]]:
    for each in fields(cls):
        if "option" in each.metadata:
            yield each, each.metadata["option"]


def _value(each: Field[Any], option: Option, options: Mapping[str, Any], flag: str | None) -> Any:
    """Return the value of a field; an option may take several values where this experiment takes one."""
    value = options[option.destination]
    if not option.several:
        return value
    if isinstance(each.default, tuple):
        return option.collect(value)
    if len(value) > 1:
        raise ValueError(f"{option.flag} must be one number with {flag}, got {len(value)}.")
    return value[0]
