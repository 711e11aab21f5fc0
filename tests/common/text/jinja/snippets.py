"""Small templates over VARIABLES, one per construct."""

VARIABLES = {
    "s": "  Hello, Wörld! \n",
    "e": "",
    "n": 3,
    "f": 2.5,
    "neg": -7,
    "l": [3, 1, 2],
    "ls": ["b", "A", "c"],
    "d": {"b": 1, "a": [1, 2], "items": 5},
    "none_": None,
    "t": True,
    "msgs": [
        {"role": "system", "content": "You are"},
        {"role": "user", "content": "Hi <|im_end|>"},
        {"role": "assistant", "content": None, "x": {"y": 1}},
    ],
    "u": "ǅ ß ﬁ ΑΣ İ naïve ⅷ",
    "q": "it's \"q\" \\ \t\x01é\u200b",
    "big": 1e22,
    "small": 1e-7,
    "people": [
        {"name": "Bo", "age": 3, "c": "x"},
        {"name": "al", "age": 3, "c": "Y"},
        {"name": "Cy", "age": 1, "c": "X"},
    ],
    "html": "<a href='x'>&\"</a>",
    "words": "a b  c\td\n e",
    "nested": [{"n": 1, "k": [{"n": 2, "k": []}, {"n": 3, "k": [{"n": 4, "k": []}]}]}],
}

# Expressions whose value is printed.
EXPRESSIONS = r"""
none_
t
[1, 'a', "it's", none, true, 1.0, {'a': (1,), 'b': ()}]
q
[q]
u | upper
u | lower
u | title
u.title()
u | capitalize
u.swapcase()
s | trim
s.strip(' \n!')
s | trim('H ')
s | length
s[2:7]
s[::-1]
s[-4:-1]
s[100]
s[0]
'é日本'[1]
'é日本'[::2]
'é日本'[-2:]
l[::-1]
l[1:]
l[:-1]
l[5:1:-2]
l[10:]
l[-1]
l[7]
l['x']
(1, 2, 3)[1:]
d.b
d['a'][1]
d['items']
d.keys() | list
d.values() | list
d.items() | list
d.missing
d.missing.more
d.get('zz')
d.get('zz', 5)
d.get('b')
undefined_name
undefined_name.x
undefined_name['x']
undefined_name + 1
'a' + undefined_name
undefined_name ~ 'x'
undefined_name | default('dflt')
e | default('dflt')
e | default('dflt', true)
none_ | default('x')
none_ | d('x', boolean=true)
undefined_name | length
undefined_name | list
undefined_name | upper
undefined_name | tojson
undefined_name | trim
undefined_name | join
undefined_name | first
undefined_name | int
undefined_name == other_undefined
undefined_name is defined
undefined_name is none
none_ is none
none_ is not none
n is defined and n is number
undefined_name in l
'x' in undefined_name
1 + 2 * 3 - 4 / 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 // 2
-7.5 % 2
7.5 % -2
2 ** 3 ** 2
2 ** -1
-2 ** 2
2 ** 0.5
1 / 0
1 // 0
1 % 0
1.0 / 0
True + 1
true - false
10 / 4
10 / 5
'a' * 3
3 * 'ab'
[1] * 2
'a' * -1
'a' + 1
1 + 'a'
[1] + [2]
(1,) + (2,)
[1] + (2,)
n ~ 'x' ~ f ~ none_ ~ true
1 < 2 < 3
1 < 3 < 2
1 == 1.0
1 == true
'1' == 1
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
l == [3, 1, 2]
d == {'a': [1, 2], 'items': 5, 'b': 1}
(1, 2) == [1, 2]
none_ == none
none_ < 1
3 in l
4 not in l
'b' in d
'ell' in s
1 in s
[] in d
not t
not not n
t and n
e or 'fallback'
e and 'x'
'yes' if t else 'no'
'yes' if e
'a' if e else 'b' if e else 'c'
1 if t if e else 2
{'a': 1}['a']
{'a': 1, 'a': 2}
{1: 'x', 'y': 2, none: 3, 1.5: 4, true: 5}
{'x': {'y': [1, {'z': 2}]}}.x.y[1].z
[1, 2,][1]
'con' 'cat'
"esc\n\t\\\x41\u00e9\'"
'\q'
0x1F + 0b101 + 0o17
1_000
1.5e3
1e100
1e16
1e15
123456789012345678.0
0.0001
0.00001
1.0
100.0
-0.0
3.14159
1e-7 + 0
big
small
9223372036854775807
9223372036854775807 * 1.0
-9223372036854775807
range(5) | list
range(2, 10, 3) | list
range(5, 0, -2) | list
range(0) | list
range(3) | length
range(3)[1]
range(10)[2:5] | list
range(1, 2, 0)
range(100001)
range('a')
dict(a=1, b=2)
dict([('a', 1)], b=2)
dict({'x': 1})
namespace(a=1).a
namespace({'a': 1}, b=2).b
namespace(a=1).zz
s.upper()
s.lower()
s.strip()
s.lstrip()
s.rstrip()
'xxaxx'.strip('x')
'xxaxx'.lstrip('x')
'xxaxx'.rstrip('x')
'a,b,c'.split(',')
'a,b,c'.split(',', 1)
'a,b,c'.rsplit(',', 1)
'a,b,c'.split(',')[-1]
words.split()
words.split(none, 1)
words.split(none, 2)
words.rsplit(none, 2)
words.split(maxsplit=1)
words.split(sep='b')
''.split()
''.split(',')
'abc'.split('')
'a\nb\r\nc\n\nd'.splitlines()
'a\nb\n'.splitlines(true)
'</think>x</think>y'.split('</think>')[-1].lstrip('\n')
'abc'.startswith('a')
'abc'.startswith(('x', 'a'))
'abc'.startswith('b', 1)
'abc'.endswith('bc')
'abc'.endswith(('x',))
'abc'.startswith(1)
'abc'.find('c')
'é日本'.find('本')
'abc'.find('z')
'abcabc'.rfind('b')
'abc'.index('z')
'abcabc'.find('b', 2)
'abcabc'.count('b')
'abc'.count('')
'aaa'.replace('a', 'b', 2)
'aaa'.replace('', '-')
'aaa'.replace('', '-', 2)
'abc'.replace('b', '')
'-'.join(['a', 'b'])
'-'.join([1])
'-'.join('abc')
'abc'.isdigit()
'123'.isdigit()
'²'.isdigit()
'²'.isdecimal()
''.isdigit()
'abc'.isalpha()
'a1'.isalnum()
' \t'.isspace()
'abc'.islower()
'ABC1'.isupper()
'hello world'.title()
"they're bill's".title()
"they're bill's" | title
'hELLO'.capitalize()
'abc'.center(10, '*')
'abc'.center(8)
'abcd'.center(9, '*')
'abc'.ljust(5) ~ '|'
'abc'.rjust(5, '.')
'-42'.zfill(6)
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.removeprefix('a').removesuffix('c')
'{} and {}'.format(1, 'x')
'{1} {0}'.format(1, 'x')
'{a} {{}}'.format(a=5)
'{} {}'.format(1)
'%s is %d' % ('x', 5)
'%5d|%-5d|%05d' % (1, 2, 3)
'%.2f' % 3.14159
'%s' % 'only'
'%s' % none_
'%r' % 'q'
'%s %s' % ('a',)
'%(x)s' % {'x': 1}
'100%%' % ()
'%e' % 12345.678
'%s, %s!' | format('a', 'b')
'%.3s' % 'abcdef'
l.append(4)
l.append
l.append is defined
d.update({'x': 1})
d.pop('b')
l.index(1)
l.count(3)
l.index(99)
d.copy()
l | length
d | length
n | length
l | count
l | first
l | last
e | first
e | last
[] | first
[] | last
'abc' | first
'abc' | last
d | first
d | last
l | sort
ls | sort
ls | sort(case_sensitive=true)
ls | sort(reverse=true)
l | sort(true)
['a', 1] | sort
people | sort(attribute='age') | map(attribute='name') | join(',')
people | sort(attribute='age,name') | map(attribute='name') | join(',')
people | sort(attribute='age', reverse=true) | map(attribute='name') | list
people | map(attribute='zz') | list
people | map(attribute='zz', default='-') | list
people | map('upper') | list
ls | map('lower') | list
ls | map('replace', 'b', 'z') | list
ls | map('nofilter') | list
people | selectattr('age', 'equalto', 3) | list | length
people | selectattr('age', '==', 3) | map(attribute='name') | join('+')
people | selectattr('zz', 'defined') | list
people | selectattr('age') | list | length
people | rejectattr('age', 'gt', 2) | map(attribute='name') | list
people | rejectattr('zz') | list | length
msgs | selectattr('role', 'in', ['user', 'system']) | list | length
msgs | selectattr('content', 'none') | first
msgs | selectattr('x.y', 'eq', 1) | list
msgs | map(attribute='x.y') | list
l | select('odd') | list
l | reject('odd') | list
l | select('divisibleby', 3) | list
l | select | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
l | select('gt', 1) | sum
l | sum
people | sum(attribute='age')
['a'] | sum
[[1], [2]] | sum(start=[])
l | min
l | max
ls | min
ls | max(case_sensitive=true)
people | max(attribute='name')
[] | min
l | reverse | list
'abc' | reverse
s | reverse
d | reverse | list
ls | unique | list
['a', 'A', 'b', 'a'] | unique | list
['a', 'A', 'b', 'a'] | unique(true) | list
[[1]] | unique | list
people | unique(attribute='age') | map(attribute='name') | list
people | groupby('age')
people | groupby('c') | map(attribute='grouper') | list
people | groupby('c', case_sensitive=true) | length
people | groupby('zz', default='none') | list | length
(people | groupby('age') | first).grouper
(people | groupby('age') | first).list | length
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3, 4, 5] | batch(2, 'x') | list
[1, 2, 3, 4, 5] | slice(3) | list
[1, 2, 3, 4, 5] | slice(3, 'x') | list
d | dictsort
d | dictsort(reverse=true)
{'b': 2, 'A': 1} | dictsort
{'b': 2, 'A': 1} | dictsort(true)
{'b': 1, 'A': 2} | dictsort(by='value')
{'b': 1, 'A': 2} | dictsort(by='zz')
d | items | list
none_ | items | list
l | join
l | join(', ')
people | join(', ', attribute='name')
['a', none, 1, 2.0, true] | join('|')
'abc' | join('-')
d | list
'abc' | list
s | list
n | list
l | string
none_ | string
42 | string
'42' | int
' 42 ' | int
'4_2' | int
'-42' | int
'x' | int
'x' | int(7)
'3.7' | int
'0x1A' | int(0, 16)
'1A' | int(base=16)
'0b11' | int(base=2)
'12' | int(base=0)
'012' | int(base=0)
3.9 | int
-3.9 | int
none_ | int
[] | int(5)
true | int
'1e3' | int
'nan' | int(1)
'3.5' | float
'x' | float
'x' | float(1.5)
'inf' | float
'nan' | float
' 1_0.5e1 ' | float
none_ | float
7 | float
2.5 | round
3.5 | round
2.675 | round(2)
42 | round
42.55 | round(1, 'floor')
42.55 | round(1, 'ceil')
2.1 | round(method='ceil')
2.5 | round(0, 'zz')
1e22 | round(2)
-5 | abs
-5.5 | abs
'a' | abs
'a b c' | wordcount
s | wordcount
"don't stop" | wordcount
'line1\nline2\n\nline3' | indent
'line1\nline2\n\nline3' | indent(2, true)
'line1\nline2\n\nline3' | indent(2, blank=true)
'line1\nline2' | indent('> ')
'line1\nline2\n' | indent(1)
'' | indent(2, true)
n | indent
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'foo bar baz qux' | truncate(11, false, '..', 0)
'abc' | center(9)
html | escape
html | e | length
html | safe
(html | safe) + '<'
'<' + (html | safe)
(html | safe) ~ '<'
html | escape | escape
html | e is escaped
'a' | upper | lower | upper
'hello' | replace('l', 'L')
'hello' | replace('l', 'L', 1)
'hello' | replace('l', 5)
123 | replace(2, 'x')
d | tojson
d | tojson(indent=2)
d | tojson(indent=4, sort_keys=true)
d | tojson(separators=(',', ':'))
d | tojson(sort_keys=true)
q | tojson
q | tojson(ensure_ascii=true)
u | tojson(ensure_ascii=true)
'😀\u007f' | tojson(true)
'😀\u007f' | tojson
[] | tojson(indent=2)
{} | tojson(indent=2)
[[], {}, [1]] | tojson(indent=1)
[1.0, 1e22, 1e-7, true, none] | tojson
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
{(1, 2): 3} | tojson
(1, 2) | tojson
range(3) | tojson
d.keys() | tojson
d | tojson(indent='\t')
msgs | tojson
msgs[1].content | tojson
{'b': 1, 1: 2} | tojson(sort_keys=true)
html | tojson
'x' is string
1 is string
1 is integer
true is integer
1.0 is float
1 is number
true is number
'1' is number
true is boolean
true is true
1 is true
false is false
none_ is none
d is mapping
l is mapping
l is sequence
'a' is sequence
d is sequence
n is sequence
undefined_name is sequence
l is iterable
n is iterable
'' is iterable
d is iterable
3 is odd
4 is even
9 is divisibleby 3
9 is divisibleby(2)
'a' is odd
'abc' is lower
'ABC' is upper
'Abc' is lower
123 is lower
1 is eq 1
1 is equalto(1)
1 is ne 2
1 is lt 2
1 is in [1, 2]
'a' is in 'abc'
5 is not in l
none_ is sameas none
true is sameas true
true is sameas 1
range is callable
n is callable
l is not mapping
'upper' is filter
'nofilter' is filter
'odd' is test
html is escaped
n is defined
n is undefined
d.zz is undefined
d.items is callable
loop is defined
d.items() | first
d.items() | last
d.items() | length
d.items()[0]
d.keys() == d.keys()
('a', 'b') | join
[x for x in l]
l[0:2][0]
msgs[-1]['role']
msgs[0].content[:3]
msgs | length > 2
msgs[1:] | map(attribute='role') | join(' ')
strftime_now('%d %b %Y')
strftime_now('%Y-%m-%d')
raise_exception('nope')
raise_exception()
d | attr('zz') | default('z') if false else 1
1 | nofilter
1 is notest
'a' if true else 1 | nofilter
x.y.z if x is defined else 'safe'
(n, f)
()
(n)
(n,)
[none_, undefined_name]
{'a': undefined_name}
-n
+n
-f
-'a'
not undefined_name
- -n
n | string + 'x'
n + 1 | string
'a' ~ 1 + 2
1 ~ 2 * 3
2 * 3 ~ 1
'x' in 'xy' ~ 'z'
n == 3 and 'y' or 'n'
(l | length) * 2
l | length * 2
{'a': 1}.a + {'b': 2}.b
''.join(['a'])|upper
s.strip().upper().lower().title()
none_.x
none_['x']
n.x
n[0]
s.x
l.x
5 .x
'%s' | format(1)
'abc'[1:2:0]
l[none_:none_]
l[:none_]
d[1:2]
n[1:2]
'a'.upper(1)
'a'.strip(chars='a')
'a' | upper(1)
'a' | nofilter(1)
l | join(d=', ')
l | join(',', 'x', 'y')
l | sort(zz=1)
'a,b' | list | last
''
'{{ x }}'
"{%- if -%}"
'a' 'b' ~ 'c'
1 if n is defined and (n > 2 or false) and not e else 2
1 is defined
'I' | lower
'ﬀ' | capitalize
'ŉabc'.capitalize()
'ΑΣ ΑΣΑ Σ'.lower()
'x'.isascii() and not 'é'.isascii()
'a b'.isprintable()
1.0 is integer
1 in (1, 2)
true in [1]
none in [none]
[1, [2, 3]] == [1, [2, 3]]
{'a': 1} in [{'a': 1}]
(1, 2) in {(1, 2): 3}
{(1, 2): 3}[(1, 2)]
{(1, 2): 3}[1, 2]
d[l]
'a' < 'B'
'é' > 'z'
'abc' <= 'abc'
true > false
1.5 >= 1
[] < [1]
() == []
""".strip("\n").split("\n")

# Whole templates.
TEMPLATES = [
    "{% for x in l %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}",
    "{% for x in l %}{{ n }}{% endfor %}{% if t %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% for x in l %}{{ n }}{% endfor %}{% set n = n + 1 %}{{ n }}",
    "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}",
    "{% for x in l %}{% if t %}{{ n }}{% endif %}{% set n = x %}{{ n }}{% endfor %}{{ n }}",
    "{% for x in l %}{% with y = 1 %}{{ n }}{% endwith %}{% set n = x %}{{ n }}{% endfor %}",
    "{% for x in l %}{% with y = 1 %}{{ n }}{% endwith %}{% set n = x %}{% endfor %}{{ n }}",
    "{% if t %}{% for x in l %}{{ n }}{% endfor %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% for x in l %}{{ m }}{% endfor %}{% macro m() %}{% endmacro %}",
    "{% set n %}{{ n }}{% endset %}{{ n }}",
    "{% set n | default(n) %}x{% endset %}{{ n }}",
    "{% macro m(a, b=a, c=d, d=4) %}{{ a }}{{ b }}{{ c }}{{ d }}{% endmacro %}{{ m(1) }}{{ m(1, d=5) }}",
    "{% macro m(n=n) %}{{ n }}{% endmacro %}{{ m() }}",
    "{% if t %}a{% endif %}\nb",
    "  {% if t %}\n  a\n  {% endif %}\nb\n",
    "x {% if t %} a {% endif %} y\n",
    "a\n   {%- if t -%}\n   b   \n  {%- endif -%}  \n c",
    "a {{- ' b ' -}} c",
    "a\n  {{ n }}  \n  b",
    "{# c #}x\n  {# comment #}\ny{#- strip -#}  z",
    "{% raw %}{{ not }} {% raw %}{% endraw %}x",
    "{%- raw -%}  {{ a }}  {%- endraw -%}  y",
    "{%+ if t %} a{%+ endif %}",
    "   {%+ if t +%}\n a{% endif +%}\n x",
    "\r\na\rb\n\n",
    "a\n",
    "a\n\n",
    "",
    "\n",
    "{",
    "{{",
    "{%",
    "{{-",
    "{%+",
    "a{{ b -",
    "{% raw",
    "{% raw %}{% endraw",
    "{{ '\\",
    "{{ 1e",
    "{{ 0x",
    "{{ 1.",
    "{{ }}",
    "{% %}",
    "{% if %}x{% endif %}",
    "{% if t %}",
    "{% endif %}",
    "{{ 'a }}",
    "{{ (1 }}",
    "{{ 1) }}",
    "{{ [1} }}",
    "{{ a! }}",
    "{# open",
    "{% raw %} open",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% nosuch %}",
    "{% for x in l %}{{ loop.index }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.length }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
    "{% for x in l %}{{ loop.cycle('odd', 'even') }} {% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}",
    "{% for x in l %}{% break %}{% else %}none{% endfor %}",
    "{% for x in l %}{% continue %}{% else %}none{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
    "{% for x in l if x > 9 %}{{ x }}{% else %}empty{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for a, b in l %}{{ a }}{% endfor %}",
    "{% for x in n %}{{ x }}{% endfor %}",
    "{% for c in 'aé' %}[{{ c }}]{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for x in undefined_name %}a{% else %}b{% endfor %}",
    "{% for x in none_ %}a{% endfor %}",
    "{% for x in range(3) %}{% for y in range(x) %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% for x in [1, 2] %}{% set outer = loop %}{% for y in [3, 4] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in nested recursive %}{{ loop.depth }}{{ loop.depth0 }}:{{ x.n }}({{ loop(x.k) }}){% endfor %}",
    "{% for x in nested recursive %}{{ x.n }}{% if x.k %}[{{ loop(x.k) }}]{% endif %}{% else %}leaf{% endfor %}",
    "{% for x in l %}{{ loop([1]) }}{% endfor %}",
    "{% set x = 1 %}{% for y in l %}{% set x = x + y %}{{ x }} {% endfor %}{{ x }}",
    "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for y in l %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b is defined }}",
    "{% set d.x = 1 %}",
    "{% set nope.x = 1 %}",
    "{% set ns = namespace(found=false) %}{% for m in msgs %}{% if m.role == 'user' and not ns.found %}{% set ns.found = true %}{{ m.content }}{% endif %}{% endfor %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = l %}{{ a }}{{ b }}",
    "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}",
    "{% set x %}block {{ n }}\n{% endset %}[{{ x }}]",
    "{% set x | upper | trim %} block {{ n }} {% endset %}[{{ x }}]",
    "{% set x = 1, %}{{ x }}",
    "{% set loop = 1 %}{{ loop }}",
    "{% for x in l %}{% set loop = 1 %}{% endfor %}",
    "{% for loop in l %}{% endfor %}",
    "{% set true = 1 %}",
    "{% set 1 = 1 %}",
    "{% set x.y.z = 1 %}",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(1, c='z') }}|{{ m(b=1, a=2) }}|{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=2) }}",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(4) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}hi {{ n }}{% endcall %}",
    "{% macro m(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) m(5) %}got {{ y }}{% endcall %}",
    "{% macro m() %}{% if caller %}{{ caller() }}{% else %}none{% endif %}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro f(k) %}{{ k }}{% if k > 0 %}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}",
    "{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}",
    "{% macro m() %}\n  text\n{% endmacro %}[{{ m() }}]",
    "{%- macro m(p) -%}\n  {{- p -}}\n{%- endmacro -%}\n[{{ m(1) | trim }}]",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(1, *[2]) }}{{ m(*[1], b=2) }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(a=1, 2) }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(n, first=true) %}{% if n is mapping %}{% for k, v in n.items() %}{{ k }}:{{ m(v) }};{% endfor %}{% elif n is sequence and n is not string %}[{% for i in n %}{{ m(i) }},{% endfor %}]{% else %}{{ n }}{% endif %}{% endmacro %}{{ m({'a': [1, 'x', {'b': 2}], 'c': 3}) }}",
    "{% filter upper %}abc {{ n }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}",
    "{% filter indent(2) %}a\nb{% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}",
    "{% with %}{% set q2 = 1 %}{% endwith %}{{ q2 }}",
    "{% print n, 'x' %}",
    "{% generation %}gen {{ n }}{% set zz = 1 %}{% endgeneration %}{{ zz }}",
    "{% break %}",
    "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in l %}{% filter upper %}a{{ x }}{% if x == 1 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}",
    "{% for x in l %}{% set y %}a{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endset %}{{ y }}{% endfor %}",
    "{% if n is defined and n %}a{% elif t %}b{% else %}c{% endif %}",
    "{% if e %}a{% elif none_ %}b{% elif l %}c{% else %}d{% endif %}",
    "{% if not (n == 3) %}a{% else %}b{% endif %}",
    "{% if e %}{{ 1 | nofilter }}{% endif %}ok",
    "{% if t %}{{ 1 | nofilter }}{% endif %}ok",
    "{% if e %}{{ 1 is notest }}{% endif %}ok",
    "{% if e %}{% for x in l %}{{ 1 | nofilter }}{% endfor %}{% endif %}ok",
    "{{ 1 | nofilter if e else 2 }}",
    "{% for m in msgs: %}{{ m.role }}{% endfor %}",
    "{%if t%}x{%endif%}",
    "{% if t %}{% if n %}{% if l %}deep{% endif %}{% endif %}{% endif %}",
    "{% set content = msgs[1]['content'] if msgs[1]['content'] is string else '' %}{{ content }}",
    "{% set system = msgs[0].content if msgs[0].role == 'system' else none %}{% if system is not none %}{{ system }}{% endif %}",
    "{% for m in msgs %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('order') }}{% endif %}{% endfor %}",
    "{% for m in msgs if m.content %}{{ m.role ~ ': ' ~ m.content | trim }}\n{% endfor %}",
    "{{ msgs | selectattr('role', 'equalto', 'system') | map(attribute='content') | first | default('none') }}",
    "{{ (msgs | selectattr('role', 'equalto', 'tool') | list | first) is defined }}",
    "{% set g = l | map('string') %}{{ g | list }}{{ g | list }}",
    "{% set g = l | select %}{{ 1 in g }}{{ g | list }}",
    "{% set g = l | select %}{{ g | first }}{{ g | list }}",
    "{{ l | select | length }}",
    "{{ l | select | last }}",
    "{{ (l | select)[0] }}",
    "{{ l | select is sequence }}{{ l | select is iterable }}",
    "{% if l | select('gt', 9) %}true{% endif %}",
    "{% set tools = tools if tools is defined else none %}{{ tools }}",
    "{% if tools is not defined %}{% set tools = none %}{% endif %}{{ tools is none }}",
    "{% for x in l %}{% if loop.first %}{% set first = x %}{% endif %}{{ first }}{% endfor %}",
    "{{ '\n' }}{{ \"\\n\" }}{{ 'multi\nline' }}",
    "{{ x }}\n{{- y }}\n  {{- n -}}  \n end",
    "{%- set x = 1 -%}\n{%- for i in l %}\n  {{- i }}\n{%- endfor %}\n",
    "{{- 'start' }}\n\n{% if t %}\n\ntext\n\n{% endif %}\n\nend",
    "日本語{{ 'テキスト' }}{# コメント #}\u00a0{%- if t %}\u2003x{% endif %}",
    "{{ msgs[0]['role'] }}{{ msgs[0]['nope'] }}{{ msgs[0].get('nope', 'dflt') }}",
    "{% set range = 5 %}{{ range }}",
    "{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}",
    "{% for i in range(2) %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% set x = namespace(items=[]) %}{% for i in l %}{% set x.items = x.items + [i * 2] %}{% endfor %}{{ x.items }}",
    "{{ {'a': 1, 'b': {'c': [1, 2]}} | tojson(indent=2) | indent(4) }}",
    "{% for t2 in [d] %}{{ t2 | tojson(indent=4) | indent(2, first=true) }}{% endfor %}",
    "{{ '' if n == 3 else raise_exception('x') }}ok",
    "{{ raise_exception('x') if n != 3 }}ok",
    "a{{ '' -}}   \n\n b",
    "{{ 'x' if n in [1, 2, 3] and 'a' not in ls else 'y' }}",
    "{% for k in d | list | sort %}{{ loop.index }}{{ k }}{% endfor %}",
    "{{ l[0] if l else 0 }}{{ l[-1:][0] }}",
    "{{- \"<s>\" + '[INST] ' ~ s.strip() ~ ' [/INST]' -}}",
    "{% set x = {'a': 1} %}{% set y = dict(x, b=2) %}{{ y }}",
    "{{ 1 if }}",
    "{{ x is }}",
    "{{ x | }}",
    "{{ x. }}",
    "{{ x[ }}",
    "{{ f(a=) }}",
    "{{ n is defined is true }}",
    "{{ not }}",
    "{{ 1 + }}",
    "{% for in l %}{% endfor %}",
    "{% for x l %}{% endfor %}",
    "{% for x in %}{% endfor %}",
    "{% else %}",
    "{% if t %}{% endfor %}",
    "{% macro %}{% endmacro %}",
    "{% macro m %}{% endmacro %}",
    "{% call n %}{% endcall %}",
    "{% filter %}{% endfilter %}",
    "{% set %}",
    "{% set x %}",
    "{{ 1 2 }}",
    "{{ {1} }}",
    "{{ {'a'} }}",
    "{{ {'a': } }}",
    "{{ 'a' 1 }}",
]
