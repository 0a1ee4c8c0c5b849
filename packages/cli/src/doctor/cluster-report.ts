import { open } from 'node:fs/promises';
import { logFile, readProcessState } from '@oarlock/cluster/process/process-state';
import type { CompositionView } from '@oarlock/cluster/paths/composition-path';
import { pluginHealthUrl, type PluginHealthList } from '@oarlock/cluster/paths/plugin-health-path';
import { errorText } from '@oarlock/primitives/error-text';
import { redactLogFields } from '@oarlock/primitives/redact-secrets';
import { adminAccess } from '../common/admin-access.ts';

const answerTimeoutMs = 5_000;
/** Bytes at the end of the log that are read, and lines of them that are reported. */
const maxLogBytes = 1 << 20;
const maxLogLines = 50;
const maxText = 2_000; // characters
/** Pino's number of the level `warn`. */
const warnLevel = 40;

/** What a bug report needs to know of the cluster of a data directory. */
export interface ClusterReport {
  readonly process?: { readonly roles: readonly string[]; readonly ready: boolean };
  /** The plugins with their configs, without secrets; or the reason for which they are not known. */
  readonly composition: CompositionView['plugins'] | string;
  readonly pluginHealth?: PluginHealthList['plugins'];
  /** The latest warnings and errors of the log, the last one at the end. */
  readonly log: readonly Readonly<Record<string, unknown>>[];
}

/** Reads the cluster of a data directory. Never rejects: what cannot be read is a part of the report. */
export async function clusterReport(dataDir: string): Promise<ClusterReport> {
  const [state, fromServer, log] = await Promise.all([readProcessState(dataDir), compositionOf(dataDir), latestProblems(logFile(dataDir))]);
  return { ...(state !== undefined && { process: { roles: state.roles, ready: state.ready } }), ...fromServer, log };
}

async function compositionOf(dataDir: string): Promise<Pick<ClusterReport, 'composition' | 'pluginHealth'>> {
  try {
    const { client, close } = await adminAccess(dataDir);
    try {
      const signal = AbortSignal.timeout(answerTimeoutMs);
      const get = (path: string) => client.raw('GET', path, undefined, { signal });
      const [{ plugins: composition }, { plugins: pluginHealth }] = (await Promise.all([
        get('/oarlock/v1/composition'),
        get(pluginHealthUrl),
      ])) as [CompositionView, PluginHealthList];
      return { composition, pluginHealth };
    } finally {
      close();
    }
  } catch (error) {
    return { composition: `unknown: ${errorText(error)}` };
  }
}

/** Returns the latest warnings and errors of a log, without secrets and with bounded texts. Returns none if the log cannot be read. */
export async function latestProblems(file: string): Promise<ClusterReport['log']> {
  const text = await readEnd(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    return JSON.stringify({ level: warnLevel, msg: `the log cannot be read: ${error.message}` });
  });
  const problems = text.split('\n').flatMap((line) => {
    const entry = parseLine(line);
    return entry === undefined || Number(entry['level']) < warnLevel ? [] : [bounded(redactLogFields(entry)) as Record<string, unknown>];
  });
  return problems.slice(-maxLogLines);
}

async function readEnd(file: string): Promise<string> {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    const length = Math.min(size, maxLogBytes);
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(length), position: size - length });
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** Returns the fields of a line, or undefined for a line that is cut off or is not JSON. */
function parseLine(line: string): Readonly<Record<string, unknown>> | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as Readonly<Record<string, unknown>>;
  } catch {
    return undefined; // the first line of the part that was read
  }
}

function bounded(value: unknown): unknown {
  if (typeof value === 'string') return value.slice(0, maxText);
  if (Array.isArray(value)) return value.map(bounded);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, bounded(inner)]));
}
