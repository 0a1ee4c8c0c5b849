import type { Attachment } from '@oarlock/spi/network';
import type { CniCall } from './plugins.ts';
import {
  cniArgs,
  CniError,
  parseResult,
  runtimeConfig,
  unknownContainer,
  type CniCommand,
  type CniResult,
  type NetworkList,
  type PluginConfig,
} from './protocol.ts';

const loopback: PluginConfig = { type: 'loopback' };

/**
 * Returns the CNI plugins that an attachment needs. Omits CNI plugins with a capability (portMappings, bandwidth) if the attachment has no
 * arguments for the capability: bandwidth 1.1 would crash in CHECK, and portmap would run iptables in DEL needlessly.
 */
function pluginsFor(list: NetworkList, attachment: Attachment): readonly PluginConfig[] {
  const always = ({ capabilities }: PluginConfig) =>
    capabilities?.['portMappings'] === undefined && capabilities?.['bandwidth'] === undefined;
  return list.plugins.filter((plugin) => always(plugin) || runtimeConfig(plugin, attachment) !== undefined);
}

/**
 * Returns true for the error of portmap 1.1 in CHECK for a pod with addresses of one IP family: portmap checks the rules of both families if
 * iptables supports both.
 */
function isAboutAbsentFamily(error: unknown, { ips }: CniResult): boolean {
  const family =
    error instanceof CniError && error.plugin === 'portmap' ? /^could not check ipv([46]) dnat/.exec(error.message)?.[1] : undefined;
  return family !== undefined && !ips.some(({ address }) => address.includes(':') === (family === '6'));
}

/**
 * Runs one CNI plugin; `CniPlugins` executes the plugin's binary.
 * @throws CniError if the CNI plugin fails; NetworkError `PluginMissing` if the binary does not exist
 */
export interface CniExec {
  run(type: string, command: CniCommand, call: CniCall): Promise<unknown>;
}

/** The attachment to delete, and the cached result of its ADD. */
export interface CniDeletion {
  readonly attachment: Attachment;
  readonly of: 'ours' | 'anyone';
  readonly result?: CniResult | undefined;
}

/** Runs the operations of the CNI specification, section 3, on a list of CNI plugins. */
export class CniChain {
  readonly #plugins: CniExec;
  readonly #withLoopback: boolean;
  /** `loopback`: also run the loopback plugin, which is not needed if the list configures `lo` itself. */
  constructor(plugins: CniExec, { loopback: withLoopback = true }: { readonly loopback?: boolean } = {}) {
    this.#plugins = plugins;
    this.#withLoopback = withLoopback;
  }

  /**
   * Runs ADD of each CNI plugin in order, with the result of the previous plugin as input. Runs the loopback plugin concurrently, unless `lo` is up.
   * @throws CniError if a plugin fails; the caller then calls `del`
   */
  async add(list: NetworkList, attachment: Attachment, signal?: AbortSignal): Promise<CniResult> {
    const [main, lo] = await Promise.allSettled([this.#addAll(list, attachment, signal), this.#loopback(list, attachment)]);
    if (main.status === 'rejected') throw main.reason;
    if (lo.status === 'rejected') throw lo.reason;
    return main.value;
  }

  async #addAll(list: NetworkList, attachment: Attachment, signal: AbortSignal | undefined): Promise<CniResult> {
    let result: CniResult | undefined;
    for (const plugin of pluginsFor(list, attachment)) {
      signal?.throwIfAborted(); // only between plugins: an interrupted plugin may leave resources that its DEL does not know
      result = parseResult(
        plugin.type,
        await this.#plugins.run(plugin.type, 'ADD', this.#call(list, { plugin, attachment, prevResult: result })),
      );
    }
    if (!result || result.ips.length === 0)
      throw new CniError(list.plugins.at(-1)?.type ?? list.name, {
        command: 'ADD',
        cniCode: 999,
        message: 'the plugins assigned no address',
      });
    return result;
  }

  async #loopback(list: NetworkList, attachment: Attachment): Promise<void> {
    if (!this.#withLoopback || attachment.loopbackUp === true) return;
    await this.#plugins.run(
      'loopback',
      'ADD',
      this.#call({ ...list, name: `${list.name}-loopback` }, { plugin: loopback, attachment: { ...attachment, ifName: 'lo' } }),
    );
  }

  async check(list: NetworkList, attachment: Attachment, result: CniResult): Promise<void> {
    if (list.cniVersion < '0.4.0') return;
    for (const plugin of pluginsFor(list, attachment)) {
      try {
        await this.#plugins.run(plugin.type, 'CHECK', this.#call(list, { plugin, attachment, prevResult: result }));
      } catch (error) {
        if (!isAboutAbsentFamily(error, result)) throw error;
      }
    }
  }

  /**
   * Runs DEL of all CNI plugins in reverse order, even if one of them fails. `of` is `anyone` if it is unknown how the attachment was made.
   * @throws CniError of the first CNI plugin that failed
   */
  async del(list: NetworkList, { attachment, of, result }: CniDeletion): Promise<void> {
    const failures: unknown[] = [];
    const plugins = of === 'ours' ? pluginsFor(list, attachment) : list.plugins;
    for (const plugin of [...plugins].reverse()) {
      try {
        await this.#plugins.run(plugin.type, 'DEL', this.#call(list, { plugin, attachment, prevResult: result }));
      } catch (error) {
        if (!(error instanceof CniError && error.cniCode === unknownContainer)) failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Runs STATUS of the CNI plugins. Does nothing if they do not support CNI 1.1. */
  async status(list: NetworkList): Promise<void> {
    if (list.cniVersion < '1.1.0') return;
    for (const { capabilities: _, ...plugin } of list.plugins)
      await this.#plugins.run(plugin.type, 'STATUS', { stdin: { ...plugin, cniVersion: list.cniVersion, name: list.name } });
  }

  /** Runs GC of all CNI plugins. Does nothing if they do not support CNI 1.1. @throws the first error, after all plugins have run */
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

  #call(
    list: NetworkList,
    {
      plugin,
      attachment,
      prevResult,
    }: { readonly plugin: PluginConfig; readonly attachment: Attachment; readonly prevResult?: CniResult | undefined },
  ) {
    const config = runtimeConfig(plugin, attachment);
    return {
      containerId: attachment.containerId,
      ifName: attachment.ifName,
      args: cniArgs(attachment),
      ...(attachment.netns !== undefined && { netns: attachment.netns }),
      stdin: {
        ...plugin,
        cniVersion: list.cniVersion,
        name: list.name,
        ...(config && { runtimeConfig: config }),
        ...(prevResult && { prevResult: { ...prevResult, cniVersion: list.cniVersion } }),
      },
    };
  }
}
