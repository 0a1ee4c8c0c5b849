import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../harness/oarlock.ts';
import type { Combination } from './combinations.ts';

export const journeyNames = [
  'deploy',
  'reach the Service',
  'pods reach each other',
  'reach the API from a pod',
  'scale',
  'roll out',
  'roll back',
  'exec',
  'logs',
  'cp',
  'kill a container',
  'kill -9 of the control plane',
  'drain',
  'delete the namespace',
] as const;

/** What became of every journey of every combination, as a table. */
export class Results {
  readonly #all: readonly Combination[];
  readonly #passed = new Map<string, boolean>();

  constructor(all: readonly Combination[]) {
    this.#all = all;
  }

  note({ name }: Combination, journey: string, passed: boolean): void {
    this.#passed.set(`${name}/${journey}`, passed);
  }

  #mark({ name }: Combination, journey: string): string {
    const passed = this.#passed.get(`${name}/${journey}`);
    return passed === undefined ? '–' : passed ? '✔' : '✖';
  }

  markdown(): string {
    const ran = this.#all.filter(({ verdict }) => verdict === 'runs');
    const rest = this.#all.filter(({ verdict }) => verdict !== 'runs');
    const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
    return [
      row(['journey', ...ran.map(({ storage, runtime, network }) => `${storage}<br>${runtime}<br>${network}`)]),
      row(['---', ...ran.map(() => ':-:')]),
      ...journeyNames.map((journey) => row([journey, ...ran.map((combination) => this.#mark(combination, journey))])),
      '',
      ...(rest.length === 0
        ? []
        : [
            row(['not run', '', 'why']),
            row(['---', '---', '---']),
            ...rest.map(({ name, verdict, because }) => row([name, verdict, because ?? ''])),
          ]),
    ].join('\n');
  }

  /** Prints the table; with OARLOCK_WRITE_MATRIX=1 also into the documentation. */
  async publish(): Promise<void> {
    const table = this.markdown();
    console.log(`\n${table.replaceAll('<br>', ' ')}\n`);
    if (process.env['OARLOCK_WRITE_MATRIX'] === '1') await writeFile(join(root, 'docs', 'matrix.md'), `${head}\n${table}\n`);
  }
}

const head = `# Which plugins run together

Storage x runtime x network, and what was tried on each combination with a real etcd, a real containerd, a real docker engine and the standard CNI plugins.
The list is made from what the plugins declare of themselves; \`npm run e2e -- matrix --write-matrix\` runs everything and writes this page.
On CI only as many rows run as it takes for each two plugins to meet; \`OARLOCK_MATRIX=all\` runs all. Rows of network-calico run when \`OARLOCK_CALICO_MATRIX=1\`
asks for them: they have not been seen green as a whole.

✔ passed, ✖ failed, – does not apply: pods that run on a clock have no traffic, and only images have a file system of their own to copy to.
After \`kill -9\`, clusters on etcd or on the local disk find everything they had acknowledged and adopt the containers that run; clusters in memory come up empty
and remove the containers that belong to nobody.
`;
