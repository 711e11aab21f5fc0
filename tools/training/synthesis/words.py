"""Names and word lists that several domains share."""

from __future__ import annotations

import random
from typing import NamedTuple

from .document import divide

GIRLS = """Lily Mia Anna Emma Sara Zoe Lucy Ella Amy Kate Rose Grace Maya Nora Ruby Ivy Clara Alice
Daisy Molly Sophie Chloe Hannah Julia Leah Eva Maria Nina Tina Gina Lena Elsa Ada Ida Vera Wendy
Penny Holly Polly Sally Betty Carla Dora Edna Fiona Gloria Hazel Irene Jane Karen Laura Mabel
Nancy Olga Paula Rita Stella Tara Uma Violet Willa Yara Zara Abby Bella Cora Della Esme Freya
Greta Heidi Iris Josie Kira Luna Mila Nell Olive Pearl Quinn Rhea Sasha Thea Ursula Vivian Wren
Yuki Zelda Aisha Beatriz Carmen Divya Elena Fatima Gita Hana Ingrid Jasmine Keiko Leila Mei Naomi
Oksana Priya Rosa Sakura Tamara Usha Valeria Xenia Yasmin Zainab Amina Bianca Celia Diana Elisa
Flora Gemma Helen Isla Kelly Lola Marta Noor Opal Petra Robin Selma Tessa Una Vanessa Winnie
Adele Brooke Carol Dana Erin Faye Gwen Hope Jenna Kara Linda Megan Nadia Paige Rachel Susan Tracy
Wanda Agnes Blanche Connie Doris Ellen Frances Gail Harriet Joan Kathy Louise Martha Norma Peggy
Ruth Sylvia Trudy Amelia Charlotte Madison Avery Scarlett Camila Aria Layla Nicole Savannah Aurora
Delilah Eliza Georgia Ines Juliet Lydia Marina Odette Rowena Sabrina Talia Verity Wilma""".split()

BOYS = """Tom Ben Max Sam Tim Jack Leo Dan Nick Adam Luke Finn Noah Owen Jake Ryan Alex Eric Paul
Mark John Peter David Henry Oscar Felix Hugo Theo Toby Charlie Harry Freddie Alfie Archie Billy
Bobby Carl Dean Eddie Frank George Ivan Jim Kevin Larry Martin Ned Oliver Pete Rob Steve Ted Victor
Walter Andy Brad Colin Derek Elliot Fred Greg Howard Ian Jeff Keith Liam Mike Nathan Otto Patrick
Ralph Scott Tony Vince Will Zack Ahmed Boris Carlos Diego Emil Farid Gustav Hiro Ismail Jamal Kenji
Lars Mateo Nikhil Omar Pablo Quentin Raj Santiago Tariq Umar Viktor Wei Yusuf Zane Anton Bruno
Cyrus Dmitri Enzo Franco Gabriel Hamza Igor Jorge Karim Luca Marco Nico Oleg Pavel Rafael Sergio
Tomas Ulf Vito Wesley Aaron Blake Caleb Dylan Ethan Gavin Hunter Isaac Jasper Kyle Logan Mason
Nolan Parker Reed Seth Tyler Wyatt Albert Bernard Cecil Donald Ernest Floyd Gilbert Herbert Irving
Jerome Kenneth Leonard Milton Norman Oswald Percy Roger Stanley Thomas Vernon Warren Arthur Clive
Duncan Edgar Graham Hector Jonas Kurt Lionel Morris Neil Rupert Simon Trevor Wallace Angus Barney
Conrad Desmond Elijah Franklin Gordon Harold Ismael Julian Kendrick Lorenzo Malcolm""".split()

SURNAMES = """Smith Jones Brown Taylor Wilson Davies Evans Thomas Roberts Walker Wright Green Hall
Wood Clarke Hill Moore Cooper Ward Turner Carter Phillips Mitchell Parker Bell Young Allen King
Baker Cook Morgan Murphy Price Bennett Gray Foster Hunt Shaw Palmer Mills Stone Fisher Webb Knight
Lane Marsh Silva Garcia Lopez Patel Singh Khan Chen Wang Kim Sato Tanaka Novak Kowalski Rossi
Müller Schmidt Larsen Berg Costa Ferrari Haddad Okafor Mensah Petrov Ivanova Dubois
Moreau""".split()

COLOURS = """red blue green yellow orange purple pink brown black white gray golden silver
turquoise crimson violet""".split()

CITIES = """Paris London Rome Berlin Madrid Lisbon Vienna Prague Oslo Dublin Athens Cairo Lima Tokyo
Seoul Delhi Boston Chicago Denver Austin Seattle Toronto Havana Nairobi Sydney Bergen Geneva Milan
Porto Krakow Hamburg Lyon Valencia Kyoto Osaka Quito Bogota Accra Tunis Riga""".split()

WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = """January February March April May June July August September October November
December""".split()

_GIRLS, _BOYS, _SURNAMES = divide(GIRLS), divide(BOYS), divide(SURNAMES)


class Person(NamedTuple):
    name: str
    he: str
    him: str
    his: str
    girl: bool


def person(rng: random.Random, split: str, girl: bool | None = None) -> Person:
    """Somebody whose name occurs in this split alone."""
    if girl is None:
        girl = rng.random() < 0.5
    if girl:
        return Person(rng.choice(_GIRLS[split]), "she", "her", "her", True)
    return Person(rng.choice(_BOYS[split]), "he", "him", "his", False)


def people(rng: random.Random, split: str, count: int) -> list[Person]:
    """Different persons; no two names begin alike enough to be mistaken."""
    found: list[Person] = []
    while len(found) < count:
        one = person(rng, split)
        if all(one.name[:2] != p.name[:2] for p in found):
            found.append(one)
    return found


def surname(rng: random.Random, split: str) -> str:
    return rng.choice(_SURNAMES[split])
