import { modeNames, type ModeName } from './pod-settings.ts';

export const namespaceTypes = ['user', 'mount', 'PID', 'IPC', 'UTS', 'network', 'cgroup'] as const;
export type NamespaceType = (typeof namespaceTypes)[number];

/** How a mode limits and measures the resources of containers. */
export type ResourceControl = 'all' | 'memory and CPU' | 'delegated';

export interface ModeFacts {
  /** When the plugin takes the mode, in Markdown. */
  readonly when: string;
  readonly programs: string;
  /** The namespaces that a container has of its own; `network` if the network plugin connects them, `cgroup` with control groups of version 2. */
  readonly namespaces: readonly NamespaceType[];
  /** True if all containers are in one user namespace, that of the node. */
  readonly inUserNamespace: boolean;
  readonly resources: ResourceControl;
  /** False if the containers mount image volumes themselves, in which links cannot be followed. */
  readonly followsLinksOfImageVolumes: boolean;
}

const everywhere = ['mount', 'PID', 'IPC', 'UTS', 'network'] as const;

/** What the modes are. The tables of README.md follow from it; tests compare it with containers. */
export const modeFacts: Readonly<Record<ModeName, ModeFacts>> = {
  'root with runc': {
    when: 'Oarlock runs as root, and runc is installed, or a crun with `run --keep` (1.21 of Debian 13; 1.8 of Debian 12 lacks it) without controllers in a hybrid hierarchy',
    programs: 'runc or crun',
    namespaces: [...everywhere, 'cgroup'],
    inUserNamespace: false,
    resources: 'all',
    followsLinksOfImageVolumes: true,
  },
  'root without': {
    when: 'Oarlock runs as root',
    programs: 'util-linux',
    namespaces: everywhere,
    inUserNamespace: false,
    resources: 'memory and CPU',
    followsLinksOfImageVolumes: true,
  },
  'user with newuidmap': {
    when: 'in a [node without root](../../docs/nodes.md#a-node-without-root) to which newuidmap gives many users, with runc or crun (otherwise as root without)',
    programs: 'runc or crun',
    namespaces: [...everywhere, 'cgroup'],
    inUserNamespace: true,
    resources: 'delegated',
    followsLinksOfImageVolumes: true,
  },
  'user without': {
    when: 'Oarlock runs as an ordinary user, and the kernel permits user namespaces',
    programs: 'util-linux',
    namespaces: ['user', ...everywhere],
    inUserNamespace: false,
    resources: 'delegated',
    followsLinksOfImageVolumes: false,
  },
};

const networkCells: Readonly<Record<ModeName, string>> = {
  'root with runc': 'a namespace, if the network plugin connects namespaces',
  'root without': 'the same',
  'user with newuidmap': 'the same',
  'user without': 'that of the node; in a node without root a namespace',
};
const resourceCells: Readonly<Record<ResourceControl, string>> = {
  all: 'yes',
  'memory and CPU': 'memory and CPU',
  delegated: 'in a delegated control group',
};

function namespacesCell({ namespaces, inUserNamespace }: ModeFacts): string {
  const list = namespaces.filter((type) => type !== 'network').map((type) => (type === 'cgroup' ? 'cgroup (v2)' : type));
  return `${list.join(', ')}${inUserNamespace ? ' in one user namespace' : ''}`;
}
const volumesCell = ({ followsLinksOfImageVolumes }: ModeFacts) => (followsLinksOfImageVolumes ? 'yes' : 'yes, without links in `subPath`');

const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
const row = (title: string, cell: (mode: ModeName) => string) => line([title, ...modeNames.map(cell)]);

/** Returns the table of the modes and when the plugin takes them. */
export function modesTable(): string {
  const rows = modeNames.map((mode) => line([mode, modeFacts[mode].when, modeFacts[mode].programs]));
  return [line(['mode', 'when', 'programs']), '|---|---|---|', ...rows].join('\n');
}

/** Returns the table of what the modes give to containers. */
export function modeFeaturesTable(): string {
  return [
    line(['', ...modeNames]).replace('|  |', '| |'),
    '|---|---|---|---|---|',
    row('namespaces of containers', (mode) => namespacesCell(modeFacts[mode])),
    row('network of pods', (mode) => networkCells[mode]),
    row('limits, OOMKilled, stats, in-place resize', (mode) => resourceCells[modeFacts[mode].resources]),
    row('image volumes', (mode) => volumesCell(modeFacts[mode])),
  ].join('\n');
}
