import { scanFlow, type FlowScan, type Quote } from './flow-style.ts';

/** Where the caret is in a YAML document. */
export interface YamlPosition {
  /** The keys from the root to the mapping or list that contains the caret; `[]` stands for an item of a list. */
  readonly path: readonly string[];
  /** The key before the caret on its line, if the caret is at its value. */
  readonly key: string | undefined;
  /** The text between `from` and the caret, without an opening quote. A completion replaces the text from `from` to `to`. */
  readonly prefix: string;
  /** The quote that is open at the caret, which a completion closes. */
  readonly quote?: Quote;
  readonly from: number;
  readonly to: number;
  /** True if a colon follows, which ends the key at the caret. */
  readonly isBeforeColon: boolean;
  /** How the mapping or list that contains the caret is written. */
  readonly style: 'block' | 'flow-mapping' | 'flow-list';
  /** The column of the keys of a mapping of block style. */
  readonly column: number;
  /** The other keys of the mapping. */
  readonly siblings: readonly string[];
  /** The type of the document. */
  readonly apiVersion: string;
  readonly kind: string;
}

interface Line {
  /** The columns of the dashes of list items that begin on the line. */
  readonly dashes: readonly number[];
  /** The column after indentation and dashes. */
  readonly column: number;
  readonly key: string | undefined;
  readonly value: string;
}

const key = /("(?:[^"\\]|\\.)*"|'[^']*'|[^\s#:{["'][^:#]*?)\s*:/.source;
const keyPattern = new RegExp(`^${key}(?:\\s+(.*)|)$`);
const typedPattern = new RegExp(`^${key}\\s+(.*)$`);
const flowPattern = new RegExp(`^( *(?:- +)*)(?:${key}\\s+)?[{[]`);
const textBlockPattern = new RegExp(`^( *(?:- +)*)(?:${key}\\s+)?[|>][-+\\d]*\\s*(?:#.*)?$`);
const separator = /^(---|\.\.\.)(\s|$)/;
const unquote = (key: string): string => (/^["']/.test(key) ? key.slice(1, -1) : key);

const isQuote = (text: string | undefined): text is Quote => text === '"' || text === "'";

/** Parses a line; undefined for an empty line and a comment. */
function parseLine(text: string): Line | undefined {
  const [lead = ''] = /^ *(?:- +|-$)*/.exec(text) ?? [];
  const content = text.slice(lead.length);
  if ((content === '' && !lead.includes('-')) || content.startsWith('#')) return undefined;
  const dashes = [...lead].flatMap((letter, index) => (letter === '-' ? [index] : []));
  const [, key, value = ''] = keyPattern.exec(content) ?? [];
  return {
    dashes,
    column: lead.length,
    key: key === undefined ? undefined : unquote(key),
    value: key === undefined ? content : value.replace(/\s*#.*$/, ''),
  };
}

/**
 * Returns where the caret is; undefined where nothing can be completed: in comments and text blocks. Works on text that is not valid YAML yet, by the
 * indentation of lines.
 */
export function positionAt(text: string, caret: number): YamlPosition | undefined {
  const lines = text.split('\n');
  const row = text.slice(0, caret).split('\n').length - 1;
  const lineStart = text.lastIndexOf('\n', caret - 1) + 1;
  const before = text.slice(lineStart, caret);
  const first = lines.findLastIndex((line, index) => index < row && separator.test(line)) + 1;
  const next = lines.findIndex((line, index) => index > row && separator.test(line));
  const context = { lines: lines.slice(first, next < 0 ? undefined : next).map(parseLine), row: row - first };
  const start = lines.slice(0, first).reduce((sum, line) => sum + line.length + 1, 0);
  const flow = flowAround(text, start, caret);
  if (flow !== undefined) return positionInFlow(text, flow, context);
  const [lead = ''] = /^ *(?:- +)*/.exec(before) ?? [];
  const typed = before.slice(lead.length);
  if (typed.startsWith('#') || separator.test(before)) return undefined;
  const [, quotedKey, value] = typedPattern.exec(typed) ?? [];
  const [quote] = /^["'](?=[^"'\\]*$)/.exec(value ?? typed) ?? [];
  const prefix = (value ?? typed).slice(quote?.length ?? 0);
  if (/[{["'#&*|>]/.test(prefix) || (quotedKey === undefined && /[\s:]/.test(prefix))) return undefined;
  const path = pathTo(context, lead);
  if (path === undefined) return undefined;
  const from = caret - (value ?? typed).length;
  const [rest = ''] = /^[^\s#]*/.exec(text.slice(caret)) ?? [];
  const to = caret + rest.replace(/:$/, '').length;
  return {
    path,
    key: quotedKey === undefined ? undefined : unquote(quotedKey),
    prefix,
    ...(isQuote(quote) && { quote }),
    from,
    to,
    isBeforeColon: isColonAt(text, to),
    style: 'block',
    column: lead.length,
    siblings: siblingsOf(context, lead),
    ...typeOf(context.lines),
  };
}

/** The value of flow style that contains the caret. */
interface Flow {
  readonly scan: FlowScan;
  /** The indentation and dashes before the value, and the key on its line. */
  readonly lead: string;
  readonly key: string | undefined;
  /** The line of the value in its document. */
  readonly row: number;
}

/** Returns the value of flow style that contains the caret, in the document that begins at `start`. Text blocks may contain brackets, and are skipped. */
function flowAround(text: string, start: number, caret: number): Flow | undefined {
  let textBlock: number | undefined;
  for (let offset = start; offset < caret; ) {
    let end = endOfLine(text, offset);
    const line = text.slice(offset, end);
    const indentation = line.search(/\S/);
    if (textBlock === undefined || (indentation >= 0 && indentation <= textBlock)) {
      const [found, lead = '', key] = flowPattern.exec(line) ?? [];
      if (found !== undefined) {
        const from = offset + found.length - 1;
        const scan = scanFlow(text, from, { caret, indent: blockColumn(lead, key) });
        const row = text.slice(start, offset).split('\n').length - 1;
        if (scan.position !== undefined || (from < caret && caret <= scan.end)) return { scan, lead, key, row };
        end = endOfLine(text, scan.end);
      }
      const [block, blockLead = '', blockKey] = textBlockPattern.exec(line) ?? [];
      textBlock = block === undefined ? undefined : blockColumn(blockLead, blockKey);
    }
    offset = end + 1;
  }
  return undefined;
}

const endOfLine = (text: string, offset: number): number => {
  const end = text.indexOf('\n', offset);
  return end < 0 ? text.length : end;
};

/** Returns the column of the mapping or list that a value is in, of which the line has indentation, dashes and key. */
const blockColumn = (lead: string, key: string | undefined): number => (key === undefined ? lead.lastIndexOf('-') : lead.length);

const isColonAt = (text: string, offset: number): boolean => /^ *:/.test(text.slice(offset, endOfLine(text, offset)));

function positionInFlow(text: string, { scan: { position, texts }, lead, key, row }: Flow, { lines }: Context): YamlPosition | undefined {
  const base = pathTo({ lines, row }, lead);
  if (position === undefined || base === undefined) return undefined;
  const path = [...base, ...(key === undefined ? [] : [unquote(key)])];
  const type = path.length === 0 ? { apiVersion: texts.get('apiVersion') ?? '', kind: texts.get('kind') ?? '' } : typeOf(lines);
  const isBeforeColon = isColonAt(text, position.to);
  return { ...position, ...type, isBeforeColon, path: [...path, ...position.path], column: lead.length };
}

interface Context {
  /** The lines of the document. */
  readonly lines: readonly (Line | undefined)[];
  /** The line of the caret. */
  readonly row: number;
}

function typeOf(lines: readonly (Line | undefined)[]): { readonly apiVersion: string; readonly kind: string } {
  const valueOf = (name: string) => lines.find((line) => line?.key === name && line.column === 0)?.value.replace(/^["']|["']$/g, '') ?? '';
  return { apiVersion: valueOf('apiVersion'), kind: valueOf('kind') };
}

/** Returns the keys above the line of the caret, whose indentation and dashes are `lead`. */
function pathTo({ lines, row }: Context, lead: string): readonly string[] | undefined {
  const path: string[] = [];
  let column = lead.length;
  /** The column of the dash, while the list is known but not yet its key. */
  let list: number | undefined;
  const enterLists = (dashes: readonly number[]) => {
    path.unshift(...dashes.map(() => '[]'));
    list = dashes[0];
  };
  enterLists([...lead].flatMap((letter, index) => (letter === '-' ? [index] : [])));
  for (let index = row - 1; index >= 0 && (list !== undefined || column > 0); index -= 1) {
    const line = lines[index];
    if (line === undefined) continue;
    const isParent = list === undefined ? line.column < column : line.column <= list && !line.dashes.includes(list);
    if (isParent) {
      if (line.key === undefined || line.value !== '') return undefined;
      path.unshift(line.key);
      column = line.column;
      list = undefined;
    } else if (list !== undefined || line.column !== column) continue;
    if (line.dashes.length > 0) enterLists(line.dashes);
  }
  return list === undefined && column === 0 ? path : undefined;
}

/** Returns the keys of the mapping that contains the caret, without the key on its line. */
function siblingsOf({ lines, row }: Context, lead: string): readonly string[] {
  const keys: string[] = [];
  const collect = (index: number, isAbove: boolean): boolean => {
    const line = lines[index];
    if (line === undefined || line.column > lead.length) return true;
    if (line.column < lead.length || (!isAbove && line.dashes.length > 0)) return false;
    if (line.key !== undefined) keys.push(line.key);
    return line.dashes.length === 0;
  };
  if (!lead.includes('-')) for (let index = row - 1; index >= 0 && collect(index, true); index -= 1);
  for (let index = row + 1; index < lines.length && collect(index, false); index += 1);
  return keys;
}
