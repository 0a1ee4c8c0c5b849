import {
  Composer,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  Lexer,
  Parser,
  type CST,
  type Document,
  type TagId,
  type Tags,
} from 'yaml';
import { exactInteger } from '../json/exact-json.ts';
import { badRequest, failure } from '../status.ts';
import { goYamlError } from './yaml-error.ts';

/**
 * The maximum size of a YAML document in bytes. Larger documents, and documents with more than `maxYamlTokens` tokens, are rejected, because parsing
 * YAML takes a thousand times as long as JSON.
 */
export const maxYamlBytes = 3 * 1024 * 1024;
const maxYamlTokens = 100_000;
const maxDepth = 100;
const maxAliasCount = 100;
/** The maximum number of aliases in a document, because resolving an alias searches the document before it. */
const maxAliases = 1_000;
/** The maximum number of nodes in a document after its aliases are expanded. */
const maxExpanded = maxYamlTokens;

/** Tags of YAML 1.1 that Go's library does not support: timestamps, base 60, binary, sets and ordered maps. */
const unwanted = new Set([
  'tag:yaml.org,2002:timestamp',
  'tag:yaml.org,2002:binary',
  'tag:yaml.org,2002:omap',
  'tag:yaml.org,2002:pairs',
  'tag:yaml.org,2002:set',
]);
const customTags = (tags: Tags): Tags =>
  tags.filter(
    (tag: Tags[number] | TagId) => typeof tag !== 'object' || (!unwanted.has(tag.tag) && !('format' in tag && tag.format === 'TIME')),
  );

export interface ParsedYaml {
  readonly value: unknown;
  /** Errors for keys that one map sets twice, in the words of Go's library; the last value is used. */
  readonly duplicates: readonly string[];
}

/**
 * Parses the first YAML document of a request. Error messages are those of Go's library and begin with `yaml: `.
 * @throws StatusError BadRequest for invalid YAML, nesting of more than 100, and excessive expansion through aliases;
 *   RequestEntityTooLarge beyond the limits.
 */
export function parseYaml(text: string): ParsedYaml {
  const lines = new LineCounter();
  const tokens = readTokens(text, lines);
  const options = { version: '1.1', customTags, intAsBigInt: true, uniqueKeys: false, lineCounter: lines, prettyErrors: false } as const;
  const { value: document } = new Composer(options).compose(tokens, true, text.length).next();
  if (document === undefined) return { value: null, duplicates: [] };
  const [error] = document.errors;
  if (error !== undefined) throw badRequest(goYamlError(error, text, lines));
  if (expandedSize(document) > maxExpanded) throw excessive();
  try {
    return { value: withNumbers(document.toJS({ maxAliasCount })), duplicates: duplicateKeys(document, lines) };
  } catch (cause) {
    // Only unresolved aliases throw; all other errors are listed in the document.
    const message = cause instanceof Error ? cause.message : String(cause);
    const anchor = /^Unresolved alias .*: (.*)$/.exec(message)?.[1];
    throw badRequest(`yaml: ${anchor === undefined ? message : `unknown anchor '${anchor}' referenced`}`);
  }
}

/** Converts integers to numbers if a double holds them, and to floats if an int64 does not. */
function withNumbers(value: unknown): unknown {
  if (typeof value === 'bigint') return exactInteger(value) ?? Number(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withNumbers);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withNumbers(member)]));
}

function readTokens(text: string, lines: LineCounter): CST.Token[] {
  if (text.length > maxYamlBytes) throw failure('RequestEntityTooLarge', `Request entity too large: limit is ${maxYamlBytes}`);
  const parser = new Parser(lines.addNewLine);
  const tokens: CST.Token[] = [];
  const nesting = new Nesting();
  let count = 0;
  let aliases = 0;
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    nesting.take(lexeme);
    if (lexeme.startsWith('*') && ++aliases > maxAliases) throw excessive();
    if (++count > maxYamlTokens)
      throw failure('RequestEntityTooLarge', `Request entity too large: a YAML document may have ${maxYamlTokens} tokens; send JSON`);
    tokens.push(...parser.next(lexeme));
  }
  tokens.push(...parser.end());
  // The composer recurses, so the depth is checked on the tokens.
  for (const token of tokens) checkDepth(token);
  return tokens;
}

const excessive = () => badRequest('yaml: document contains excessive aliasing');
const tooDeep = () => badRequest('yaml: exceeded max depth');

/** Tracks nesting by brackets and by dashes on one line before the tree is built. */
class Nesting {
  #brackets = 0;
  #marks = 0;

  /** Tracks one token. @throws StatusError BadRequest if the document is nested too deeply */
  take(lexeme: string): void {
    if (lexeme === '[' || lexeme === '{') this.#brackets++;
    else if (lexeme === ']' || lexeme === '}') this.#brackets--;
    else if (lexeme === '-' || lexeme === '?') this.#marks++;
    else if (lexeme.startsWith('\n') || lexeme.startsWith('\r')) this.#marks = 0;
    if (this.#brackets > maxDepth || this.#marks > maxDepth) throw tooDeep();
  }
}

/** Counts the nodes after expansion of every alias, merge keys included. */
function expandedSize(document: Document.Parsed): number {
  const anchors = new Map<string, number>();
  const sizeOf = (node: unknown): number => {
    if (isAlias(node)) return anchors.get(node.source) ?? 1;
    let size = 1;
    if (isCollection(node)) for (const item of node.items) size += isPair(item) ? sizeOf(item.key) + sizeOf(item.value) : sizeOf(item);
    const { anchor } = (node ?? {}) as { readonly anchor?: string };
    if (anchor !== undefined) anchors.set(anchor, size);
    return Math.min(size, Number.MAX_SAFE_INTEGER);
  };
  return sizeOf(document.contents);
}

function checkDepth(root: CST.Token): void {
  const pending: { readonly token: CST.Token; readonly depth: number }[] = [{ token: root, depth: 0 }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { token, depth } = next;
    if (depth > maxDepth) throw tooDeep();
    if (token.type === 'document' && token.value !== undefined) pending.push({ token: token.value, depth: depth + 1 });
    if (!('items' in token)) continue;
    for (const item of token.items) {
      if (item.key) pending.push({ token: item.key, depth: depth + 1 });
      if (item.value) pending.push({ token: item.value, depth: depth + 1 });
    }
  }
}

/** Returns the errors for duplicate keys in the order of Go's library: those in the value of a key before the key, with the line of the value. */
function duplicateKeys(document: Document.Parsed, lines: LineCounter): string[] {
  const found: string[] = [];
  const inspect = (node: unknown): void => {
    if (isSeq(node)) node.items.forEach(inspect);
    if (!isMap(node)) return;
    const seen = new Set<string>();
    for (const { key, value } of node.items) {
      inspect(value);
      if (!isScalar(key)) continue;
      const name = String(key.value);
      if (seen.has(name) && name !== '<<')
        found.push(
          `  line ${lineOf(value ?? key, lines)}: key ${typeof key.value === 'string' ? JSON.stringify(name) : name} already set in map`,
        );
      seen.add(name);
    }
  };
  inspect(document.contents);
  return found;
}

const lineOf = (node: unknown, lines: LineCounter): number => lines.linePos((isNode(node) ? node.range?.[0] : undefined) ?? 0).line;
