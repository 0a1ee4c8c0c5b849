import { writeFile } from 'node:fs/promises';
import { parseQuantity, quantityValue } from '@oarlock/api/values/quantity';
import { NetworkError, podInterface, type Attachment, type NetworkDriver } from '@oarlock/spi/network';
import { RuntimeError, type PodSandboxConfig, type RuntimeCallOptions, type RuntimeCondition } from '@oarlock/spi/runtime';
import type { SandboxRecords } from './sandbox-records.ts';

/** The network and the addresses that a sandbox is connected with. */
export interface SandboxConnection {
  readonly netns: string;
  readonly config: PodSandboxConfig;
}

/** Connects sandboxes that have their own network namespace: the engine creates an empty namespace, and the network plugin connects it. */
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

  /** Returns the addresses of a sandbox; none if the sandbox is not connected. */
  ipsOf(sandboxId: string): readonly string[] {
    return this.#records.get(sandboxId)?.ips ?? [];
  }
  netnsOf(sandboxId: string): string | undefined {
    return this.#records.get(sandboxId)?.attachment.netns;
  }

  /**
   * Connects the network namespace of a sandbox. After an error, `disconnect` removes what the call created.
   * @throws RuntimeError if there is no network plugin for network namespaces, or if the network plugin fails
   */
  async connect(sandboxId: string, { netns, config }: SandboxConnection, { signal, spanContext }: RuntimeCallOptions): Promise<void> {
    const network = this.#network;
    if (network?.traits.namespace !== 'pod')
      throw new RuntimeError('FailedPrecondition', 'a pod with its own network namespace needs a network plugin that supports one');
    const attachment = attachmentOf(sandboxId, netns, config);
    // the record is written first: after a crash it shows that there may be an attachment to delete
    await this.#records.put(sandboxId, { attachment });
    try {
      const { ips } = await network.add(attachment, { ...(signal && { signal }), spanContext });
      await this.#records.put(sandboxId, { attachment, ips });
    } catch (error) {
      if (error instanceof NetworkError)
        throw new RuntimeError('Internal', `failed to set up the network of sandbox ${sandboxId}: ${error.message}`, { cause: error });
      throw error;
    }
  }

  /** Deletes the network attachment of a sandbox and its record. Idempotent. */
  async disconnect(sandboxId: string, { spanContext }: RuntimeCallOptions): Promise<void> {
    const record = this.#records.get(sandboxId);
    if (!record) return;
    await this.#network?.del(record.attachment, { spanContext });
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
    ifName: podInterface,
    netns,
    pod: { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
    portMappings,
    annotations,
    ...(Object.keys(limits).length > 0 && { bandwidth: limits }),
  };
}

/** Parses a bandwidth annotation. Sets no limit if the quantity is invalid. */
function bits<K extends string>(key: K, annotation: string | undefined): { readonly [key in K]?: number } {
  try {
    const rate = annotation === undefined ? 0 : quantityValue(parseQuantity(annotation));
    return (rate > 0 ? { [key]: rate } : {}) as { readonly [key in K]?: number };
  } catch {
    return {};
  }
}

/** Overwrites the resolv.conf that the engine generated. All containers of a sandbox share this file. */
export async function writeResolvConf(path: string, { servers, searches, options }: NonNullable<PodSandboxConfig['dns']>): Promise<void> {
  const lines = [
    ...(searches.length > 0 ? [`search ${searches.join(' ')}`] : []),
    ...servers.map((server) => `nameserver ${server}`),
    ...(options.length > 0 ? [`options ${options.join(' ')}`] : []),
  ];
  await writeFile(path, lines.map((line) => `${line}\n`).join(''));
}
