import { describeConfigIssues } from '@oarlock/kernel/config-issue';
import { WiringError, type Fault, type SourcePosition } from '@oarlock/kernel/errors';
import { isNode, LineCounter, parseDocument, type Document, type YAMLParseError } from 'yaml';
import { sortFaults } from './sort-faults.ts';
import { clusterSchema, type ClusterSpec } from './cluster-schema.ts';

/** A parsed `cluster.yaml` that knows the position of each value in the file. */
export interface ClusterFile {
  readonly name: string;
  readonly spec: ClusterSpec;
  /** Path of the cluster file; other paths in the file are relative to it. Undefined for compositions made in code. */
  readonly file?: string;
  locate(path: readonly PropertyKey[]): SourcePosition | undefined;
}

/** A parsed cluster file with its faults. If there are faults, `file` omits the invalid values; `file` is undefined if nothing could be parsed. */
export interface ParsedClusterFile {
  readonly file: ClusterFile | undefined;
  readonly faults: readonly Fault[];
}

/** Maximum size of a cluster file, in characters. */
const maxLength = 1 << 20;
/** Maximum number of aliases, which prevents exponential expansion. */
const maxAliases = 100;
/** Maximum number of validations: of the file, and of the file without its invalid values, which may uncover further faults. */
const maxAttempts = 3;
const requiredConstants: Readonly<Record<string, unknown>> = { apiVersion: 'oarlock.dev/v1', kind: 'Cluster' };

/** Parses a cluster file; does not load its plugins. @throws WiringError with every fault of the file */
export function parseClusterFile(text: string, path: string): ClusterFile {
  const { file, faults } = parseWithFaults(text, path);
  if (file === undefined || faults.length > 0) throw new WiringError(sortFaults(faults));
  return file;
}

/** Parses a cluster file and returns its faults instead of throwing them. */
export function parseWithFaults(text: string, path: string): ParsedClusterFile {
  const start = { file: path, line: 1, column: 1 };
  if (text.length > maxLength)
    return invalid({
      message: `the file is larger than ${maxLength} bytes`,
      at: start,
      remedy: 'keep only the composition in the cluster file; data of plugins belongs in other files',
    });
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const syntaxFaults = document.errors.map((error): Fault => {
    const { line, col } = lines.linePos(error.pos[0]);
    return { code: 'ConfigInvalid', at: { file: path, line, column: col }, ...describeSyntaxError(error, text) };
  });
  if (syntaxFaults.length > 0) return { file: undefined, faults: syntaxFaults };
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: maxAliases }) ?? {};
  } catch (error) {
    return invalid({ message: `not valid YAML: ${(error as Error).message}`, at: start, remedy: 'replace the aliases by their values' });
  }
  return validate(value, { path, start, locate: locator(document, lines, path) });
}

/** Returns the message and remedy for a syntax error, in the terms of a cluster file. */
function describeSyntaxError({ code, message, pos: [start] }: YAMLParseError, text: string): Pick<Fault, 'message' | 'remedy'> {
  if (code === 'DUPLICATE_KEY') {
    const [key = ''] = /^[^\s:]*/.exec(text.slice(start)) ?? [];
    return { message: `the key ${key} is used twice`, remedy: 'keep one of them: lists and maps are not merged' };
  }
  if (code === 'MULTIPLE_DOCS') return { message: 'the file has several documents', remedy: 'keep one: the line `---` begins another' };
  return {
    message: `not valid YAML: ${message}`,
    remedy: 'correct it here or in the lines before: a missing quote or bracket is often detected later',
  };
}

const invalid = (fault: Omit<Fault, 'code'>): ParsedClusterFile => ({ file: undefined, faults: [{ code: 'ConfigInvalid', ...fault }] });

interface Source {
  readonly path: string;
  readonly start: SourcePosition;
  readonly locate: ClusterFile['locate'];
}

/** Validates a cluster file. If the validation fails, validates the file again without the invalid values. */
function validate(value: unknown, { path, start, locate }: Source): ParsedClusterFile {
  const faults: Fault[] = [];
  let current = value;
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const parsed = clusterSchema.safeParse(current, { jitless: true });
    if (parsed.success) return { file: { name: parsed.data.metadata.name, spec: parsed.data.spec, file: path, locate }, faults };
    const issues = describeConfigIssues(parsed.error, current, clusterSchema);
    if (attempt === 0)
      faults.push(
        ...issues.map(
          (issue): Fault => ({
            code: 'ConfigInvalid',
            message: issue.message,
            path: issue.path.map(String).join('.'),
            at: locate(issue.sourcePath) ?? start,
            remedy: issue.remedy ?? '`oarlock config schema` prints every key with its type',
          }),
        ),
      );
    current = issues.reduce((rest, { sourcePath }) => withoutPath(rest, sourcePath), current);
  }
  return { file: undefined, faults };
}

/** Returns a copy of the value without the value at `path`, or without the list that contains it, so that the default applies. */
function withoutPath(value: unknown, [key, ...rest]: readonly PropertyKey[]): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || key === undefined) return undefined;
  const record = value as Readonly<Record<PropertyKey, unknown>>;
  if (typeof key === 'string' && key in requiredConstants) return { ...record, [key]: requiredConstants[key] };
  const child = rest.length === 0 ? undefined : withoutPath(record[key], rest);
  const { [key]: _, ...others } = record;
  return child === undefined ? others : { ...others, [key]: child };
}

/** Returns a function that returns the position of a value, or of the nearest parent of the value that the file contains. */
function locator(document: Document, lines: LineCounter, file: string): ClusterFile['locate'] {
  return (path) => {
    for (let length = path.length; length >= 0; length--) {
      const node: unknown = length === 0 ? document.contents : document.getIn(path.slice(0, length), true);
      const offset = keyOffset(document, path.slice(0, length)) ?? (isNode(node) ? node.range?.[0] : undefined);
      if (offset !== undefined) {
        const { line, col } = lines.linePos(offset);
        return { file, line, column: col };
      }
    }
    return undefined;
  };
}

/** Returns the offset of a map key, which is a better position for a message than the offset of the value. */
function keyOffset(document: Document, path: readonly PropertyKey[]): number | undefined {
  const last = path.at(-1);
  if (typeof last !== 'string') return undefined;
  const parent: unknown = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  const items = (parent as { items?: readonly { key?: unknown }[] } | undefined)?.items;
  const pair = items?.find(({ key }) => isNode(key) && 'value' in key && key.value === last);
  return isNode(pair?.key) ? pair.key.range?.[0] : undefined;
}
