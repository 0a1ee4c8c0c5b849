import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isLoopback } from '@oarlock/api/net/ip';
import { WiringError } from '@oarlock/kernel/errors';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { defaultPort } from './cluster-facts.ts';
import type { HostAddresses, HostRequest, LoopbackRanges, PlannedPlugin } from './plan.ts';
import { roleNames } from '../cluster-file/cluster-schema.ts';
import { HostClaims } from '../process/host-claims.ts';
import { claimPodRanges } from '../process/pod-range-claims.ts';

const kubeletPort = 10_250;
/** The maximum number of clusters with loopback addresses on one host. */
const maxLoopbackClusters = 15;

const saved = z.object({
  port: z.int().min(1).max(65_535).optional(),
  kubeletPort: z.int().min(1).max(65_535).optional(),
  loopback: z
    .int()
    .min(0)
    .max(maxLoopbackClusters - 1)
    .optional(),
});
type Saved = z.output<typeof saved>;

export interface HostAllocationOptions {
  readonly dataDir: string;
  /** The port of the command line. 0: all ports are any free ones, and nothing is kept for the next start. */
  readonly port: number | undefined;
  /** True for a process without an API server. */
  readonly isRemote: boolean;
  readonly claims?: Pick<HostClaims, 'claim' | 'claimPort' | 'list' | 'release'>;
}

/**
 * The ports and loopback addresses of a process that neither its file nor the command line determine. Kubernetes' ports are preferred; a cluster that
 * finds them in use takes others and keeps them in its data directory, so that its kubeconfigs, nodes and Services stay valid after a restart.
 */
export class HostAllocation {
  readonly #claims: Pick<HostClaims, 'claim' | 'claimPort' | 'list' | 'release'>;
  readonly #options: HostAllocationOptions;
  readonly #notices: string[] = [];
  #saved: Saved = {};

  constructor(options: HostAllocationOptions) {
    this.#options = options;
    this.#claims = options.claims ?? new HostClaims();
  }

  /** What the user should know about the choice, one sentence each. */
  get notices(): readonly string[] {
    return this.#notices;
  }

  async allocate(request: HostRequest): Promise<HostAddresses> {
    if (!this.#isEphemeral) this.#saved = await this.#read();
    const port = await this.#serverPort(request);
    const kubelet = await this.#kubeletPort(request);
    const loopback = await this.#loopback(request);
    return {
      ...(port !== undefined && { port }),
      ...(kubelet !== undefined && { kubeletPort: kubelet }),
      ...(loopback && { loopback }),
    };
  }

  /** Claims what the plugins cannot share with other clusters of the host. @throws WiringError if another process holds a part */
  async claimParts(plugins: readonly PluginParts[]): Promise<void> {
    const rejected = await rejectedParts(plugins, this.#claims);
    const [first] = rejected;
    if (first === undefined) return;
    throw new WiringError([
      {
        code: 'StartFailed',
        path: first.path,
        message: `another cluster of this host uses ${rejected.map(({ part }) => part).join(', ')}`,
        remedy:
          'stop the other cluster, or run this one with `-f embedded`, on another machine, or in another network namespace with a `confDir` and a container daemon of its own',
      },
    ]);
  }

  /**
   * Claims the ranges of pods, if the network plugin routes them in the kernel. @throws WiringError if they overlap those of another cluster of this host:
   * the kernel would use the routes of one of them, and the pods of the other would not be reachable
   */
  async claimPodRanges(
    plugins: readonly PluginParts[],
    { podCIDRs, serverUrl }: Pick<ClusterFacts, 'podCIDRs' | 'serverUrl'>,
  ): Promise<void> {
    const network = plugins.find(({ plugin }) => plugin.provides.id.startsWith('network/'));
    if (network?.plugin.declares?.['namespace'] !== 'pod') return;
    const overlap = await claimPodRanges(this.#claims, { podCIDRs, cluster: serverUrl });
    if (overlap === undefined) return;
    const { own, other, free } = overlap;
    throw new WiringError([
      {
        code: 'StartFailed',
        path: 'spec.networking.podCIDRs',
        message: `the range ${own} of the pods overlaps ${other}, the range of another cluster of this host: the kernel has one route to each address`,
        remedy: `stop the other cluster, or give this one a range of its own${free === undefined ? '' : `, such as podCIDRs: [${free}]`}`,
      },
    ]);
  }

  /** Keeps the choice for the next start. Called by the process that holds the data directory. */
  async save(): Promise<void> {
    if (this.#isEphemeral || Object.keys(this.#saved).length === 0) return;
    await writeAtomic(this.#file, `${JSON.stringify(this.#saved)}\n`);
  }

  release(): void {
    this.#claims.release();
  }

  get #isEphemeral(): boolean {
    return this.#options.port === 0;
  }
  get #file(): string {
    return join(this.#options.dataDir, 'addresses.json');
  }

  async #read(): Promise<Saved> {
    let text: string;
    try {
      text = await readFile(this.#file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
      throw error;
    }
    const parsed = saved.safeParse(parseJson(text));
    if (!parsed.success)
      throw new WiringError([
        { code: 'ConfigInvalid', message: `${this.#file} is damaged`, remedy: 'remove it: the addresses are chosen again' },
      ]);
    return parsed.data;
  }

  async #serverPort({ file, roles }: HostRequest): Promise<number | undefined> {
    const { server } = file.spec;
    if (this.#options.isRemote || !roles.includes('apiserver')) return this.#options.port;
    const configured = this.#options.port ?? server.port;
    // the URL of the server is written to files before it listens, so that a free port must be known
    if (configured === 0) return this.#claims.claimPort(undefined, server.address);
    if (configured !== undefined) return this.#options.port;
    const preferred = this.#saved.port ?? defaultPort;
    const port = await this.#claims.claimPort(preferred, server.address);
    if (port !== preferred)
      this.#notices.push(
        `port ${preferred} is in use by another program: the API server listens on port ${port}, also after a restart${
          this.#saved.port === undefined ? '' : '; copies of its kubeconfig need the new port'
        }`,
      );
    this.#saved = { ...this.#saved, port };
    return port;
  }

  async #kubeletPort({ file, roles }: HostRequest): Promise<number | undefined> {
    const { port, serverAddress } = file.spec.settings.kubelet;
    if (!roles.includes('kubelet') || port !== undefined) return undefined;
    if (this.#isEphemeral) return 0;
    const address = typeof serverAddress === 'string' ? serverAddress : '0.0.0.0';
    const own = await this.#claims.claimPort(this.#saved.kubeletPort ?? kubeletPort, address);
    this.#saved = { ...this.#saved, kubeletPort: own };
    return own;
  }

  /** Chooses loopback ranges for a process that runs a whole cluster with loopback addresses, if the file names no range. */
  async #loopback({ file, roles, serviceCIDR, isShared }: HostRequest): Promise<LoopbackRanges | undefined> {
    const { networking } = file.spec;
    const isWhole = roleNames.every((role) => roles.includes(role));
    const isOpen = networking.serviceCIDRs === undefined && networking.podCIDRs === undefined;
    if (!isWhole || !isOpen || isShared || this.#options.isRemote) return undefined;
    if (serviceCIDR === undefined || !isLoopback(serviceCIDR.split('/')[0] ?? '')) return undefined;
    const index = await this.#claimLoopback();
    if (!this.#isEphemeral) this.#saved = { ...this.#saved, loopback: index };
    // the first cluster has the ranges that the network plugin declares
    return index === 0 ? undefined : loopbackRanges(index);
  }

  async #claimLoopback(): Promise<number> {
    // Services of a cluster that has started before have addresses of its range
    const own = this.#saved.loopback ?? (existsSync(join(this.#options.dataDir, 'pki')) && !this.#isEphemeral ? 0 : undefined);
    const candidates = own === undefined ? Array.from({ length: maxLoopbackClusters }, (_, index) => index) : [own];
    for (const index of candidates) if (await this.#claims.claim(`loopback/${index}`)) return index;
    const message =
      own === undefined
        ? `${maxLoopbackClusters} clusters with loopback addresses run on this host, which is the maximum`
        : `another cluster of this host uses ${loopbackRanges(own).serviceCIDR}, the range of this cluster's Services`;
    throw new WiringError([
      {
        code: 'StartFailed',
        message,
        path: 'spec.networking.serviceCIDRs',
        remedy: 'stop the other cluster, or run it with ranges of its own',
      },
    ]);
  }
}

/** Returns the ranges of the n-th cluster of a host. They do not overlap, and the first one has the defaults of `network-host` and `cloud-local`. */
export function loopbackRanges(index: number): LoopbackRanges {
  return {
    nodeAddress: `127.0.0.${index + 1}`,
    serviceCIDR: `127.${96 + index}.0.0/16`,
    podCIDR: index === 0 ? '127.128.0.0/10' : `127.${192 + index}.0.0/16`,
    loadBalancerCIDR: `127.111.${index}.0/24`,
  };
}

type PluginParts = Pick<PlannedPlugin, 'plugin' | 'config' | 'path'>;
interface Part {
  readonly part: string;
  readonly path: string;
}

/** Claims the parts of plugins and returns those that another process holds. */
async function rejectedParts(plugins: readonly PluginParts[], claims: Pick<HostClaims, 'claim'>): Promise<readonly Part[]> {
  const paths = new Map(plugins.flatMap((planned) => exclusiveParts(planned).map((part) => [part, planned.path] as const)));
  const rejected: Part[] = [];
  for (const [part, path] of paths) {
    // a path of a socket can be longer than the name of an abstract socket
    if (!(await claims.claim(`part/${createHash('sha256').update(part).digest('hex')}`))) rejected.push({ part, path });
  }
  return rejected;
}

/** Returns a part that another cluster of this host uses and a plugin needs, or undefined. */
export async function partInUse(plugin: PluginParts): Promise<string | undefined> {
  const claims = new HostClaims();
  try {
    return (await rejectedParts([plugin], claims))[0]?.part;
  } finally {
    claims.release();
  }
}

/** Returns nothing for an invalid config, which the plugin host reports. */
function exclusiveParts({ plugin, config }: PluginParts): readonly string[] {
  if (plugin.exclusiveParts === undefined) return [];
  const parsed = plugin.config.safeParse(config);
  return parsed.success ? plugin.exclusiveParts(parsed.data) : [];
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the schema rejects it
  }
}
