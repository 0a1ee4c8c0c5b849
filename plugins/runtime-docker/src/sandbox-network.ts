import { writeFile } from 'node:fs/promises';
import { parseQuantity, value } from '@oarlock/api/quantity';
import { NetworkError, type Attachment, type NetworkDriver } from '@oarlock/spi/network';
import { RuntimeError, type PodSandboxConfig, type RuntimeCall, type RuntimeCondition } from '@oarlock/spi/runtime';
import type { SandboxRecords } from './sandbox-records.ts';

/** The network of sandboxes that have one of their own: the engine gives them an empty namespace, the network plugin connects it. */
export class SandboxNetwork {
  readonly #network: NetworkDriver | undefined;
  readonly #records: SandboxRecords;

  constructor(network: NetworkDriver | undefined, records: SandboxRecords) {
    this.#network = network;
    this.#records = records;
  }

  async condition(): Promise<RuntimeCondition> {
    const { ready, message } = (await this.#network?.status()) ?? { ready: true, message: 'pods share the network of the host' };
    return { type: 'NetworkReady', status: ready, reason: ready ? '' : 'NetworkPluginNotReady', message };
  }

  /** Empty when it is not connected. */
  ipsOf(sandboxId: string): readonly string[] {
    return this.#records.get(sandboxId)?.ips ?? [];
  }
  netnsOf(sandboxId: string): string | undefined {
    return this.#records.get(sandboxId)?.attachment.netns;
  }

  /** @throws RuntimeError; whatever was made stays for `disconnect` */
  async connect(sandboxId: string, netns: string, config: PodSandboxConfig, { signal, cause }: RuntimeCall): Promise<void> {
    const network = this.#network;
    if (network?.traits.namespace !== 'pod')
      throw new RuntimeError('FailedPrecondition', 'pods with a network of their own need a network plugin that gives them one');
    const attachment = attachmentOf(sandboxId, netns, config);
    // first the record: whatever happens, somebody knows that there is something to take back
    await this.#records.put(sandboxId, { attachment });
    try {
      const { ips } = await network.add(attachment, { ...(signal && { signal }), cause });
      await this.#records.put(sandboxId, { attachment, ips });
    } catch (error) {
      if (error instanceof NetworkError)
        throw new RuntimeError('Internal', `failed to set up the network of sandbox ${sandboxId}: ${error.message}`, { cause: error });
      throw error;
    }
  }

  /** As often as needed. */
  async disconnect(sandboxId: string, { cause }: RuntimeCall): Promise<void> {
    const record = this.#records.get(sandboxId);
    if (!record) return;
    await this.#network?.del(record.attachment, { cause });
    await this.#records.remove(sandboxId);
  }
}

function attachmentOf(sandboxId: string, netns: string, config: PodSandboxConfig): Attachment {
  const { metadata, portMappings, annotations } = config;
  const limits = {
    ...bits('ingressBits', annotations['kubernetes.io/ingress-bandwidth']),
    ...bits('egressBits', annotations['kubernetes.io/egress-bandwidth']),
  };
  return {
    containerId: sandboxId,
    ifName: 'eth0',
    netns,
    pod: { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
    portMappings,
    annotations,
    ...(Object.keys(limits).length > 0 && { bandwidth: limits }),
  };
}

/** What is no quantity limits nothing. */
function bits<K extends string>(key: K, annotation: string | undefined): { readonly [key in K]?: number } {
  try {
    const amount = annotation === undefined ? 0 : value(parseQuantity(annotation));
    return (amount > 0 ? { [key]: amount } : {}) as { readonly [key in K]?: number };
  } catch {
    return {};
  }
}

/** The engine would write a file of its own making; containers of a sandbox share it. */
export async function writeResolvConf(path: string, { servers, searches, options }: NonNullable<PodSandboxConfig['dns']>): Promise<void> {
  const lines = [
    ...(searches.length > 0 ? [`search ${searches.join(' ')}`] : []),
    ...servers.map((server) => `nameserver ${server}`),
    ...(options.length > 0 ? [`options ${options.join(' ')}`] : []),
  ];
  await writeFile(path, lines.map((line) => `${line}\n`).join(''));
}
