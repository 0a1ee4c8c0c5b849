import type { Attachment } from '@oarlock/spi/network';
import type { CniCall } from './cni-plugins.ts';
import {
  cniArgs,
  CniFault,
  parseResult,
  runtimeConfig,
  unknownContainer,
  type CniCommand,
  type CniResult,
  type NetworkList,
  type PluginConfig,
} from './cni-protocol.ts';

const loopback: PluginConfig = { type: 'loopback' };

/**
 * The plugins that have something to do for an attachment: those that act on what the runtime says (ports, bandwidth) are left
 * out when it says nothing. bandwidth 1.1 crashes in CHECK then, and portmap runs iptables in DEL for nothing.
 */
function concerned(list: NetworkList, attachment: Attachment): readonly PluginConfig[] {
  const always = ({ capabilities }: PluginConfig) =>
    capabilities?.['portMappings'] === undefined && capabilities?.['bandwidth'] === undefined;
  return list.plugins.filter((plugin) => always(plugin) || runtimeConfig(plugin, attachment) !== undefined);
}

/** portmap 1.1 wants rules for both families wherever iptables knows both, and fails for a pod that has addresses of one only. */
function isAboutAbsentFamily(error: unknown, { ips }: CniResult): boolean {
  const family =
    error instanceof CniFault && error.plugin === 'portmap' ? /^could not check ipv([46]) dnat/.exec(error.message)?.[1] : undefined;
  return family !== undefined && !ips.some(({ address }) => address.includes(':') === (family === '6'));
}

/** Runs one plugin once. `CniPlugins` does it by exec. @throws CniFault; NetworkError `PluginMissing` */
export interface CniRunner {
  run(type: string, command: CniCommand, call: CniCall): Promise<unknown>;
}

/** The operations of the CNI specification, section 3, on a whole list of plugins. */
export class CniChain {
  readonly #plugins: CniRunner;
  readonly #withLoopback: boolean;
  /** `loopback`: whether its plugin is run beside the list, which a list whose plugins bring `lo` up does not need. */
  constructor(plugins: CniRunner, { loopback: withLoopback = true }: { readonly loopback?: boolean } = {}) {
    this.#plugins = plugins;
    this.#withLoopback = withLoopback;
  }

  /** In order, each plugin with the result of the one before. The loopback interface comes up beside them. @throws CniFault; the caller then calls `del` */
  async add(list: NetworkList, attachment: Attachment, signal?: AbortSignal): Promise<CniResult> {
    const [main, lo] = await Promise.allSettled([this.#addAll(list, attachment, signal), this.#loopback(list, attachment)]);
    if (main.status === 'rejected') throw main.reason;
    if (lo.status === 'rejected') throw lo.reason;
    return main.value;
  }

  async #addAll(list: NetworkList, attachment: Attachment, signal: AbortSignal | undefined): Promise<CniResult> {
    let result: CniResult | undefined;
    for (const plugin of concerned(list, attachment)) {
      signal?.throwIfAborted(); // between plugins only: one that is cut off may leave what its DEL does not know of
      result = parseResult(plugin.type, await this.#plugins.run(plugin.type, 'ADD', this.#call(list, plugin, attachment, result)));
    }
    if (!result || result.ips.length === 0) throw new CniFault(list.plugins.at(-1)?.type ?? list.name, 'ADD', 999, 'no address was given');
    return result;
  }

  async #loopback(list: NetworkList, attachment: Attachment): Promise<void> {
    if (!this.#withLoopback) return;
    await this.#plugins.run(
      'loopback',
      'ADD',
      this.#call({ ...list, name: `${list.name}-loopback` }, loopback, { ...attachment, ifName: 'lo' }),
    );
  }

  async check(list: NetworkList, attachment: Attachment, result: CniResult): Promise<void> {
    if (list.cniVersion < '0.4.0') return;
    for (const plugin of concerned(list, attachment)) {
      try {
        await this.#plugins.run(plugin.type, 'CHECK', this.#call(list, plugin, attachment, result));
      } catch (error) {
        if (!isAboutAbsentFamily(error, result)) throw error;
      }
    }
  }

  /**
   * In reverse order, all of them, also when one fails. `of` is `anyone` when nothing is known of how the attachment was made.
   * @throws CniFault of the first that failed
   */
  async del(list: NetworkList, attachment: Attachment, of: 'ours' | 'anyone', result?: CniResult): Promise<void> {
    const failures: unknown[] = [];
    const plugins = of === 'ours' ? concerned(list, attachment) : list.plugins;
    for (const plugin of [...plugins].reverse()) {
      try {
        await this.#plugins.run(plugin.type, 'DEL', this.#call(list, plugin, attachment, result));
      } catch (error) {
        if (!(error instanceof CniFault && error.cniCode === unknownContainer)) failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Does nothing where the plugins are older than CNI 1.1. */
  async status(list: NetworkList): Promise<void> {
    if (list.cniVersion < '1.1.0') return;
    for (const { capabilities: _, ...plugin } of list.plugins)
      await this.#plugins.run(plugin.type, 'STATUS', { stdin: { ...plugin, cniVersion: list.cniVersion, name: list.name } });
  }

  /** Does nothing where the plugins are older than CNI 1.1. Runs all, then throws what the first failed with. */
  async gc(list: NetworkList, valid: readonly Pick<Attachment, 'containerId' | 'ifName'>[]): Promise<void> {
    if (list.cniVersion < '1.1.0') return;
    const attachments = valid.map(({ containerId, ifName }) => ({ containerID: containerId, ifname: ifName }));
    const failures: unknown[] = [];
    for (const { capabilities: _, ...plugin } of list.plugins) {
      await this.#plugins
        .run(plugin.type, 'GC', {
          stdin: { ...plugin, cniVersion: list.cniVersion, name: list.name, 'cni.dev/valid-attachments': attachments },
        })
        .catch((error: unknown) => {
          failures.push(error);
        });
    }
    if (failures.length > 0) throw failures[0];
  }

  #call(list: NetworkList, plugin: PluginConfig, attachment: Attachment, prevResult?: CniResult) {
    const given = runtimeConfig(plugin, attachment);
    return {
      containerId: attachment.containerId,
      ifName: attachment.ifName,
      args: cniArgs(attachment),
      ...(attachment.netns !== undefined && { netns: attachment.netns }),
      stdin: {
        ...plugin,
        cniVersion: list.cniVersion,
        name: list.name,
        ...(given && { runtimeConfig: given }),
        ...(prevResult && { prevResult: { ...prevResult, cniVersion: list.cniVersion } }),
      },
    };
  }
}
