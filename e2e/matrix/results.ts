import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../harness/oarlock.ts';
import type { Combination } from './combinations.ts';
import { waysOf, type RackNetwork } from './three-nodes.ts';

export const journeyNames = [
  'deploy',
  'reach the Service',
  'pods reach each other',
  'reach the API from a pod',
  'scale',
  'roll out',
  'roll back',
  'policy',
  'claims',
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
    if (!written) return;
    const [, rack] = await sectionsOfPage();
    await writeFile(page, `${head}\n${table}\n${rack}`);
  }
}

const rackSteps = ['pods reach each other', 'large packets', 'reach the Service', 'policy'] as const;
const rackExtras: Readonly<Record<RackNetwork, readonly string[]>> = {
  bridge: ['leave the cluster with the address of their node', 'claims', 'goes on when a node is killed, and nothing is left of what goes'],
  calico: [
    'reflected: only the node that reflects speaks with all',
    'goes on when BIRD is killed, and starts it again',
    'leave the cluster with the address of their node',
    'claims',
    'goes on when a node is killed, and nothing is left of what goes',
  ],
};

/** What became of each way between three nodes, as a table of its own on the same page. */
export class RackResults {
  readonly #passed = new Map<string, boolean>();

  note(network: RackNetwork, step: string, passed: boolean): void {
    this.#passed.set(`${network}/${step}`, passed);
  }

  markdown(): string {
    const mark = (network: RackNetwork, step: string) => {
      const passed = this.#passed.get(`${network}/${step}`);
      return passed === undefined ? '–' : passed ? '✔' : '✖';
    };
    const networks = Object.keys(waysOf) as RackNetwork[];
    const columns = networks.flatMap((network) => waysOf[network].map((way) => ({ network, way })));
    const extras = [...new Set(networks.flatMap((network) => rackExtras[network]))];
    return [
      row(['journey', ...columns.map(({ network, way }) => `${network}<br>${way}`)]),
      row(['---', ...columns.map(() => ':-:')]),
      ...rackSteps.map((step) => row([step, ...columns.map(({ network, way }) => mark(network, `${way}: ${step}`))])),
      '',
      row(['once for a network', ...networks]),
      row(['---', ...networks.map(() => ':-:')]),
      ...extras.map((step) => row([step, ...networks.map((network) => mark(network, step))])),
    ].join('\n');
  }

  async publish(): Promise<void> {
    const table = this.markdown();
    console.log(`\n${table.replaceAll('<br>', ' ')}\n`);
    if (!written) return;
    const [main] = await sectionsOfPage();
    await writeFile(page, `${main}${rackHead}\n${table}\n`);
  }
}

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
const written = process.env['OARLOCK_WRITE_MATRIX'] === '1';
const page = join(root, 'docs', 'matrix.md');
const rackTitle = '\n## On three nodes\n';

/** What is about one node, and what is about three. Each test file writes its own. */
async function sectionsOfPage(): Promise<readonly [main: string, rack: string]> {
  const text = await readFile(page, 'utf8');
  const at = text.indexOf(rackTitle);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at)];
}

const rackHead = `${rackTitle}
Three network namespaces on one layer 2 segment, each a node of its own with two pods of runtime-process, and the control plane outside: the ways that a network
plugin has between nodes, one after another below the same pods. \`reflected\`: BGP without a mesh, by way of the one node that reflects routes. \`claims\`: a StatefulSet
with a volume of csi-hostpath on each node finds its data again.
`;

const head = `# Which plugins run together

Storage x runtime x network, and what was tried on each combination with a real etcd, a real containerd, a real docker engine and the standard CNI plugins.
The list is made from what the plugins declare of themselves; \`npm run e2e -- matrix --write-matrix\` runs everything and writes this page.
On CI only as many rows run as it takes for each two plugins to meet; \`OARLOCK_MATRIX=all\` runs all.

✔ passed, ✖ failed, – does not apply: pods that run on a clock have no traffic, and only images have a file system of their own to copy to.
After \`kill -9\`, clusters on etcd or on the local disk find everything they had acknowledged and adopt the containers that run; clusters in memory come up empty
and remove the containers that belong to nobody.
`;
