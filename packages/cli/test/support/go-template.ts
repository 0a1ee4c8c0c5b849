/**
 * Renders the templates of a Helm chart: the subset of Go's text/template, Sprig and Helm that packaging/helm uses. An unknown action, function or
 * variable is an error, so that a template cannot use more than this file knows.
 */
import { createHash } from 'node:crypto';
import { stringify } from 'yaml';

type Node = string | { readonly action: string; readonly body: readonly Node[]; readonly otherwise: readonly Node[] };
interface Scope {
  readonly dot: unknown;
  readonly variables: Map<string, unknown>;
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  value === 0 ||
  value === false ||
  (typeof value === 'object' && Object.keys(value).length === 0);
const indent = (spaces: number, text: string) => text.replaceAll(/^/gm, ' '.repeat(spaces));

const functions: Readonly<Record<string, (...args: never[]) => unknown>> = {
  default: (fallback: unknown, value: unknown) => (isEmpty(value) ? fallback : value),
  indent: (spaces: number, text: string) => indent(spaces, text),
  nindent: (spaces: number, text: string) => `\n${indent(spaces, text)}`,
  printf: (format: string, ...args: unknown[]) => args.reduce((text: string, arg) => text.replace('%s', String(arg)), format),
  quote: (value: unknown) => JSON.stringify(String(value)),
  replace: (from: string, to: string, text: string) => text.replaceAll(from, to),
  sha256sum: (text: string) => createHash('sha256').update(text).digest('hex'),
  toYaml: (value: unknown) => stringify(value, { lineWidth: 0 }).trimEnd(),
  trimSuffix: (suffix: string, text: string) => (text.endsWith(suffix) ? text.slice(0, -suffix.length) : text),
  trunc: (length: number, text: string) => text.slice(0, length),
};

/** Splits a template at its actions; `{{-` and `-}}` remove the white space beside them. */
function parse(template: string): readonly Node[] {
  const parts = template.split(/(\s*\{\{-\s[^}]*\s-\}\}\s*|\s*\{\{-\s[^}]*\}\}|\{\{[^}]*\s-\}\}\s*|\{\{[^}]*\}\})/);
  const open: { action: string; body: Node[]; otherwise: Node[]; isElse: boolean }[] = [
    { action: '', body: [], otherwise: [], isElse: false },
  ];
  for (const [at, part] of parts.entries()) {
    const top = open.at(-1);
    if (top === undefined) throw new Error('{{ end }} without a block');
    const nodes = top.isElse ? top.otherwise : top.body;
    if (at % 2 === 0) {
      nodes.push(part);
      continue;
    }
    const action = part.trim().replace(/^\{\{-?\s*|\s*-?\}\}$/g, '');
    if (/^(?:if|with|range|define)\b/.test(action)) open.push({ action, body: [], otherwise: [], isElse: false });
    else if (action === 'else') top.isElse = true;
    else if (action === 'end') {
      open.pop();
      open.at(-1)?.[open.at(-1)?.isElse === true ? 'otherwise' : 'body'].push(top);
    } else nodes.push({ action, body: [], otherwise: [] });
  }
  if (open.length !== 1) throw new Error(`${open.at(-1)?.action}: {{ end }} is missing`);
  return open[0]?.body ?? [];
}

/** Renders the templates of a chart with Helm's root object (`Values`, `Release`, `Chart`). Returns the texts by the name of the template. */
export function renderTemplates(templates: ReadonlyMap<string, string>, root: object): ReadonlyMap<string, string> {
  const named = new Map<string, readonly Node[]>();

  const evaluate = (expression: string, scope: Scope): unknown =>
    splitOutside(expression, '|').reduce<unknown>((value, call, at) => invoke(call, scope, at === 0 ? [] : [value]), undefined);

  const operand = (word: string, { dot, variables }: Scope): unknown => {
    if (/^-?\d+$/.test(word)) return Number(word);
    if (word.startsWith('"')) return JSON.parse(word) as string;
    const path = word.split('.');
    const [first = ''] = path;
    const start = first === '' ? dot : variables.get(first);
    if (first !== '' && !variables.has(first)) throw new Error(`unknown variable ${word}`);
    return path
      .slice(1)
      .reduce<unknown>((value, key) => (key === '' ? value : (value as Record<string, unknown> | undefined)?.[key]), start);
  };

  function invoke(call: string, scope: Scope, piped: readonly unknown[]): unknown {
    const [name = '', ...rest] = splitOutside(call, ' ');
    const value = (word: string) => (word.startsWith('(') ? evaluate(word.slice(1, -1), scope) : operand(word, scope));
    if (/^[.$"(\d-]/.test(name)) {
      if (rest.length + piped.length > 0) throw new Error(`${name} is no function`);
      return value(name);
    }
    const args = [...rest.map(value), ...piped];
    if (name === 'include') return render(named.get(String(args[0])) ?? fail(`unknown template ${String(args[0])}`), scopeOf(args[1]));
    const run = functions[name] ?? fail(`unknown function ${name}`);
    return run(...(args as never[]));
  }

  const scopeOf = (dot: unknown): Scope => ({ dot, variables: new Map([['$', root]]) });

  function render(nodes: readonly Node[], scope: Scope): string {
    return nodes.map((node) => (typeof node === 'string' ? node : act(node, scope))).join('');
  }

  function act({ action, body, otherwise }: Exclude<Node, string>, scope: Scope): string {
    const [, keyword = '', expression = ''] = /^(\w+)\s+(.*)$/s.exec(action) ?? [];
    if (keyword === 'define') {
      named.set(JSON.parse(expression) as string, body);
      return '';
    }
    const assigned = /^(\$\w+)\s*:=\s*(.*)$/s.exec(action);
    if (assigned !== null) {
      scope.variables.set(assigned[1] ?? '', evaluate(assigned[2] ?? '', scope));
      return '';
    }
    if (!['if', 'with', 'range'].includes(keyword)) return String(evaluate(action, scope) ?? fail(`${action} has no value`));
    const value = evaluate(expression, scope);
    if (isEmpty(value)) return render(otherwise, scope);
    if (keyword === 'range') return (value as readonly unknown[]).map((each) => render(body, { ...scope, dot: each })).join('');
    return render(body, keyword === 'with' ? { ...scope, dot: value } : scope);
  }

  const parsed = [...templates].map(([name, text]) => [name, parse(text)] as const);
  // templates may include those of files that come later
  for (const [, nodes] of parsed)
    for (const node of nodes) if (typeof node !== 'string' && node.action.startsWith('define')) act(node, scopeOf(root));
  return new Map(parsed.map(([name, nodes]) => [name, render(nodes, scopeOf(root))]));
}

function fail(message: string): never {
  throw new Error(message);
}

/** Splits at a separator outside of quotes and parentheses. */
function splitOutside(text: string, separator: string): readonly string[] {
  const parts = [''];
  let depth = 0;
  let quoted = false;
  for (const character of text) {
    if (character === '"') quoted = !quoted;
    else if (!quoted && character === '(') depth += 1;
    else if (!quoted && character === ')') depth -= 1;
    if (character === separator && depth === 0 && !quoted) parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}
