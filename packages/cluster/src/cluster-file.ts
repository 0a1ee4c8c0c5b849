import { readFile } from 'node:fs/promises';
import { configIssues } from '@oarlock/kernel/config-issue';
import { WiringError, type Fault, type SourcePosition } from '@oarlock/kernel/errors';
import { isNode, LineCounter, parseDocument, type Document } from 'yaml';
import { inOrder } from './fault-order.ts';
import { clusterSchema, type ClusterSpec } from './cluster-schema.ts';
import { withUpstreamConfigs } from './upstream-configs.ts';

/** A parsed `cluster.yaml` that still knows where each value was written. */
export interface ClusterFile {
  readonly name: string;
  readonly spec: ClusterSpec;
  /** The file itself, for paths relative to it; absent for compositions made in code. */
  readonly file?: string;
  locate(path: readonly PropertyKey[]): SourcePosition | undefined;
}

const maxBytes = 1 << 20;

/**
 * @throws WiringError with every fault of the file: line, path, value and what was expected; and, when the file can be read at all, of the plugins that
 * it names
 */
export async function readClusterFile(file: string): Promise<ClusterFile> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new WiringError(
      [
        {
          code: 'ConfigInvalid',
          message: `${file} cannot be read: ${(cause as Error).message}`,
          remedy: 'name an existing file after -f, or leave -f out for the embedded defaults',
        },
      ],
      { cause },
    );
  }
  const { read, faults } = parse(text, file);
  if (read === undefined || faults.length > 0)
    throw new WiringError(inOrder([...faults, ...(read === undefined ? [] : await faultsOf(read))]));
  return withUpstreamConfigs(read);
}

/** What is wrong with the plugins of a file that has faults of its own, as far as it can be told: whatever may be empty or chosen by mistake is left out. */
async function faultsOf(read: ClusterFile): Promise<readonly Fault[]> {
  const [{ plan }, { checkPlan }] = await Promise.all([import('./plan.ts'), import('./check.ts')]);
  try {
    checkPlan(await plan(read));
    return [];
  } catch (error) {
    if (!(error instanceof WiringError)) throw error;
    return error.faults.filter(({ code }) => code !== 'SlotEmpty');
  }
}

/** @throws WiringError with every fault of the file itself */
export function parseClusterFile(text: string, file: string): ClusterFile {
  const { read, faults } = parse(text, file);
  if (read === undefined || faults.length > 0) throw new WiringError(inOrder(faults));
  return read;
}

/** With faults, `read` is the file without what is wrong; undefined when nothing can be made of it. */
function parse(text: string, file: string): { readonly read: ClusterFile | undefined; readonly faults: readonly Fault[] } {
  const start = { file, line: 1, column: 1 };
  if (text.length > maxBytes)
    return {
      read: undefined,
      faults: [
        {
          code: 'ConfigInvalid',
          message: `the file is larger than ${maxBytes} bytes`,
          at: start,
          remedy: 'a cluster file names plugins; their data belongs elsewhere',
        },
      ],
    };
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const locate = locator(document, lines, file);
  const broken = document.errors.map((error): Fault => {
    const { line, col } = lines.linePos(error.pos[0]);
    return {
      code: 'ConfigInvalid',
      message: `not valid YAML: ${error.message}`,
      at: { file, line, column: col },
      remedy: 'correct it here or in the lines before: a missing quote or bracket shows late',
    };
  });
  if (broken.length > 0) return { read: undefined, faults: broken };
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 }) ?? {};
  } catch (error) {
    return {
      read: undefined,
      faults: [
        {
          code: 'ConfigInvalid',
          message: `not valid YAML: ${(error as Error).message}`,
          at: start,
          remedy: 'write out what the aliases stand for',
        },
      ],
    };
  }
  const faults: Fault[] = [];
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const parsed = clusterSchema.safeParse(value, { jitless: true });
    if (parsed.success) return { read: { name: parsed.data.metadata.name, spec: parsed.data.spec, file, locate }, faults };
    const issues = configIssues(parsed.error, value, clusterSchema);
    for (const issue of issues) {
      const at = locate(issue.locate) ?? start;
      const fault: Fault = {
        code: 'ConfigInvalid',
        message: issue.message,
        path: issue.path.map(String).join('.'),
        at,
        remedy: issue.remedy ?? 'docs/cluster-yaml.md lists every key',
      };
      if (attempt === 0) faults.push(fault);
    }
    value = issues.reduce((rest, { locate: path }) => without(rest, path), value);
  }
  return { read: undefined, faults };
}

// once for what is wrong, once for what is wrong without it
const maxAttempts = 3;
const fixed: Readonly<Record<string, unknown>> = { apiVersion: 'oarlock.dev/v1', kind: 'Cluster' };

/** A copy without the value at `path`, or without the list that it stands in: what is wrong is left to its default. */
function without(value: unknown, [key, ...rest]: readonly PropertyKey[]): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || key === undefined) return undefined;
  const record = value as Readonly<Record<PropertyKey, unknown>>;
  if (typeof key === 'string' && key in fixed) return { ...record, [key]: fixed[key] };
  const below = rest.length === 0 ? undefined : without(record[key], rest);
  const { [key]: _, ...others } = record;
  return below === undefined ? others : { ...others, [key]: below };
}

/** Positions of values, or of the nearest parent that is written down. */
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

/** Where the key itself stands: a map's own key reads better than the first character of its value. */
function keyOffset(document: Document, path: readonly PropertyKey[]): number | undefined {
  const last = path.at(-1);
  if (typeof last !== 'string') return undefined;
  const parent: unknown = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  const items = (parent as { items?: readonly { key?: unknown }[] } | undefined)?.items;
  const pair = items?.find(({ key }) => isNode(key) && 'value' in key && key.value === last);
  return isNode(pair?.key) ? pair.key.range?.[0] : undefined;
}
