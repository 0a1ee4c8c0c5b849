import { readFile } from 'node:fs/promises';
import { configIssues } from '@oarlock/kernel/config-issue';
import { WiringError, type Fault, type SourcePosition } from '@oarlock/kernel/errors';
import { isNode, LineCounter, parseDocument, type Document } from 'yaml';
import { clusterSchema, type ClusterSpec } from './cluster-schema.ts';

/** A parsed `cluster.yaml` that still knows where each value was written. */
export interface ClusterFile {
  readonly name: string;
  readonly spec: ClusterSpec;
  /** The file itself, for paths relative to it; absent for compositions made in code. */
  readonly file?: string;
  locate(path: readonly PropertyKey[]): SourcePosition | undefined;
}

const maxBytes = 1 << 20;

/** @throws WiringError with every fault of the file: line, path, value and what was expected */
export async function readClusterFile(file: string): Promise<ClusterFile> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new WiringError([{ code: 'ConfigInvalid', message: `${file} cannot be read: ${(cause as Error).message}`, remedy: 'name an existing file after -f, or leave -f out for the embedded defaults' }], { cause });
  }
  return parseClusterFile(text, file);
}

export function parseClusterFile(text: string, file: string): ClusterFile {
  if (text.length > maxBytes) throw new WiringError([{ code: 'ConfigInvalid', message: `${file} is larger than ${maxBytes} bytes` }]);
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const locate = locator(document, lines, file);
  const broken = document.errors.map((error): Fault => {
    const { line, col } = lines.linePos(error.pos[0]);
    return { code: 'ConfigInvalid', message: `not valid YAML: ${error.message}`, at: { file, line, column: col } };
  });
  if (broken.length > 0) throw new WiringError(broken);
  const value: unknown = document.toJS({ maxAliasCount: 100 });
  const parsed = clusterSchema.safeParse(value ?? {});
  if (!parsed.success) {
    throw new WiringError(configIssues(parsed.error, value ?? {}).map((issue): Fault => {
      const at = locate(issue.locate);
      return { code: 'ConfigInvalid', message: issue.message, path: issue.path.map(String).join('.'), ...(at && { at }), remedy: issue.remedy ?? 'docs/cluster-yaml.md lists every key' };
    }));
  }
  return { name: parsed.data.metadata.name, spec: parsed.data.spec, file, locate };
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
