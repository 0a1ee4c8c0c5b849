import { execFile } from 'node:child_process';
import { access } from 'node:fs/promises';
import { promisify } from 'node:util';
import { parseQuantity, quantityValue } from '@oarlock/api/values/quantity';
import { podInterface, type Attachment, type NetworkDriver } from '@oarlock/spi/network';
import { RuntimeError, type PodSandboxConfig, type RuntimeCallOptions } from '@oarlock/spi/runtime';
import { findProgram } from '../host/host-tools.ts';

const run = promisify(execFile);
const timeout = 10_000;
/** Where `ip netns` keeps network namespaces. */
const directory = '/run/netns';

/** Connects the network namespaces of sandboxes, which are named after the sandbox id, with the network plugin, and removes them. */
export class PodNetwork {
  readonly #network: NetworkDriver;
  constructor(network: NetworkDriver) {
    this.#network = network;
  }

  static pathOf(sandboxId: string): string {
    return `${directory}/oarlock-${sandboxId.slice(0, 24)}`;
  }

  /**
   * Connects the network namespace of a sandbox, which the supervisor created. After an error, `disconnect` removes both.
   * @throws RuntimeError if the network plugin fails
   */
  async connect(sandboxId: string, config: PodSandboxConfig, { signal, spanContext }: RuntimeCallOptions): Promise<readonly string[]> {
    const sysctls = Object.entries(config.linux.sysctls ?? {});
    const foreign = sysctls.find(([name]) => !/^net\.[\w.-]+$/.test(name));
    if (foreign)
      throw new RuntimeError(
        'Unsupported',
        `sysctl ${JSON.stringify(foreign[0])} cannot be set for pods of this runtime: it applies to the whole node`,
      );
    if (sysctls.length > 0) await this.#sysctls(sandboxId, sysctls);
    return (await this.#network.add(this.#attachment(sandboxId, config), { ...(signal && { signal }), spanContext })).ips;
  }

  /** Deletes the network attachment and the network namespace of a sandbox. Idempotent. */
  async disconnect(sandboxId: string, config: PodSandboxConfig, { spanContext }: RuntimeCallOptions): Promise<void> {
    await this.#network.del(this.#attachment(sandboxId, config), { spanContext });
    if (
      await access(PodNetwork.pathOf(sandboxId)).then(
        () => true,
        () => false,
      )
    )
      await this.#remove(sandboxId);
  }

  #attachment(sandboxId: string, { metadata: { namespace, name, uid }, portMappings, annotations }: PodSandboxConfig): Attachment {
    const ingressBits = bits(annotations['kubernetes.io/ingress-bandwidth']);
    const egressBits = bits(annotations['kubernetes.io/egress-bandwidth']);
    return {
      containerId: sandboxId,
      ifName: podInterface,
      netns: PodNetwork.pathOf(sandboxId),
      loopbackUp: true,
      pod: { namespace, name, uid },
      portMappings,
      annotations,
      ...((ingressBits !== undefined || egressBits !== undefined) && {
        bandwidth: { ...(ingressBits !== undefined && { ingressBits }), ...(egressBits !== undefined && { egressBits }) },
      }),
    };
  }

  async #sysctls(sandboxId: string, sysctls: readonly (readonly [string, string])[]): Promise<void> {
    const [nsenter, sysctl] = [findProgram('nsenter'), findProgram('sysctl')];
    if (nsenter === undefined || sysctl === undefined)
      throw new RuntimeError('FailedPrecondition', 'sysctls of pods need the programs nsenter and sysctl, which are not installed');
    try {
      await run(
        nsenter,
        [`--net=${PodNetwork.pathOf(sandboxId)}`, '--', sysctl, '-q', '-w', ...sysctls.map(([name, value]) => `${name}=${value}`)],
        { timeout },
      );
    } catch (cause) {
      throw new RuntimeError('InvalidArgument', `cannot set the sysctls of the pod: ${(cause as Error).message}`, { cause });
    }
  }

  async #remove(sandboxId: string): Promise<void> {
    const ip = findProgram('ip');
    if (ip === undefined)
      throw new RuntimeError('FailedPrecondition', 'network namespaces need the program ip (iproute2), which is not installed');
    try {
      await run(ip, ['netns', 'del', PodNetwork.pathOf(sandboxId).slice(directory.length + 1)], { timeout });
    } catch (cause) {
      const message = `cannot remove the network namespace of sandbox ${sandboxId}: ${(cause as Error).message}`;
      throw new RuntimeError('Internal', message, { cause });
    }
  }
}

/** Parses a bandwidth annotation of kubenet, which upstream's runtimes still read. Undefined if it is not a valid quantity: then there is no limit. */
function bits(annotation: string | undefined): number | undefined {
  if (annotation === undefined) return undefined;
  try {
    const rate = quantityValue(parseQuantity(annotation));
    return rate > 0 ? rate : undefined;
  } catch {
    return undefined;
  }
}
