import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../../harness/oarlock.ts';
import { list, publishIn } from '../../matrix/results.ts';

/** What a cluster did while a plugin had a fault. */
export interface FaultResult {
  /** The answer to the caller: `ok`, or a status and its message. */
  readonly answer: string;
  /** The kind under which the fault is counted; undefined if it is not, as errors of calls for each node in a scheduling cycle. */
  readonly counted?: string;
  /** Why the plugin is unhealthy, if the fault makes it so. */
  readonly reason?: string | undefined;
}

/** Collects the results of tests with faults of plugins, in tables by fault. A fault that ended its test early has no row. */
export class FaultResults {
  readonly #rows = new Map<string, Map<string, FaultResult>>();
  readonly #subjects: readonly string[];

  /** `subjects` are the names of the plugins in the order of the rows. */
  constructor(subjects: readonly string[]) {
    this.#subjects = subjects;
  }

  note(fault: string, subject: string, result: FaultResult): void {
    const rows = this.#rows.get(fault) ?? new Map<string, FaultResult>();
    this.#rows.set(fault, rows.set(subject, result));
  }

  async publish(): Promise<void> {
    const tables = [...this.#rows].map(([fault, rows]) => {
      const lines = this.#subjects.flatMap((subject) => {
        const found = rows.get(subject);
        if (found === undefined) return [];
        return [[`\`${subject}\``, cell(found.answer), found.counted ?? '–', cell(found.reason ?? 'healthy')]];
      });
      return `${list([fault, 'answer to the request', 'counted as', 'health of the plugin'], lines)}`;
    });
    await publishIn('plugin-isolation.md', '## Results', ...tables);
  }
}

const cell = (text: string): string =>
  text
    .replaceAll('|', '\\|')
    .replaceAll('\n', ' ')
    .replaceAll(/(?<=returned a promise).*/g, '');

/** Returns the first cells of the rows of the tables in docs/plugin-isolation.md, by the first cell of the header. */
export async function documentedRows(): Promise<ReadonlyMap<string, readonly string[]>> {
  const page = await readFile(join(root, 'docs', 'plugin-isolation.md'), 'utf8');
  const tables = [...page.matchAll(/^\| ([^|]*) \|.*\n\|[ -|]*\n((?:\|.*\n)*)/gm)];
  return new Map(tables.map(([, header = '', rows = '']) => [header, [...rows.matchAll(/^\| `([^`]+)`/gm)].map(([, name = '']) => name)]));
}
