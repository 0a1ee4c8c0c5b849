import type { PluginContext } from '@oarlock/kernel/plugin';
import { inSpan } from '@oarlock/kernel/tracing';
import { NetworkError, type Attachment, type NetworkCallOptions, type NetworkResult } from '@oarlock/spi/network';
import { attachmentRecords, type AttachmentRecord, type AttachmentRecords } from './attachment-records.ts';
import { attachmentKey, type AttachmentKey } from './record-files.ts';
import type { CniChain } from './chain.ts';
import { CniError, validateNames, toNetworkError, toNetworkResult, type CniResult, type NetworkList } from './protocol.ts';
import { isNamespace } from './net-namespace.ts';
import { KeyedExecutor } from './keyed-executor.ts';

/** An attachment without a record, which a container runtime made by calling the CNI plugins of the conflist itself. */
export interface ForeignAttachment extends AttachmentKey {
  /** Creation time in milliseconds since the epoch. */
  readonly since: number;
}

export interface AttachmentsOptions {
  /** Name of the network plugin, for error messages. */
  readonly name: string;
  /** Directory of the attachment records, one file each. */
  readonly directory: string;
  readonly chain: CniChain;
  /** Maximum number of concurrent CNI operations; further operations would only wait for kernel locks. */
  readonly parallel: number;
  /** Time in milliseconds for which `gc` keeps attachments of container runtimes that are not in the caller's list yet. */
  readonly graceMs: number;
  readonly context: Pick<PluginContext, 'log' | 'clock' | 'tracer'>;
  /** Returns the attachments that container runtimes made with the conflist, as far as the network plugin can detect them. */
  foreign(list: NetworkList): Promise<readonly ForeignAttachment[]>;
  /** Called after ADD, before the pod starts. ADD fails if it fails. */
  attached?(result: CniResult): Promise<void>;
  /** Called after DEL. */
  detached?(result: CniResult): Promise<void>;
  /** Called after DEL if the network namespace no longer exists. Removes what the kernel keeps until the last process in the namespace ends. */
  namespaceGone?(result: CniResult): Promise<void>;
}

/** The part that all network drivers with a list of CNI plugins share: the attachments, each with the configuration list that ADD used. */
export class Attachments {
  readonly #options: AttachmentsOptions;
  readonly #records: AttachmentRecords;
  readonly #gate: KeyedExecutor;
  /** The configuration list for new attachments; undefined before `setup`. */
  list: NetworkList | undefined;

  constructor(options: AttachmentsOptions) {
    this.#options = options;
    this.#records = attachmentRecords(options.directory);
    this.#gate = new KeyedExecutor(options.parallel);
  }

  async load(): Promise<void> {
    const broken = await this.#records.load();
    if (broken.length > 0) this.#options.context.log.warn({ broken }, 'could not read records of attachments; gc frees their addresses');
  }

  /** The results of the attachments that this node made. */
  get results(): readonly CniResult[] {
    return this.#records.all.flatMap(({ result }) => result ?? []);
  }

  /** The attachments that this node made. */
  get all(): readonly AttachmentKey[] {
    return this.#records.all.map(({ attachment }) => attachment);
  }

  async add(attachment: Attachment, { signal, spanContext }: NetworkCallOptions = {}): Promise<NetworkResult> {
    validateNames(attachment);
    const { name, context, chain } = this.#options;
    const { list } = this;
    if (!list) throw new NetworkError('TryAgain', `${name}: the network of the node is not set up yet`);
    if (attachment.netns === undefined)
      throw new NetworkError('InvalidConfig', `sandbox ${attachment.containerId} has no network namespace to connect`);
    signal?.throwIfAborted();
    return this.#gate.run(attachmentKey(attachment), () =>
      inSpan(
        context.tracer,
        'CNI ADD',
        { spanContext, attributes: { 'cni.network': list.name, 'cni.container': attachment.containerId } },
        async () => {
          signal?.throwIfAborted();
          const known = this.#records.get(attachment);
          if (known?.result) {
            if (known.attachment.netns === attachment.netns) return toNetworkResult(known.result);
            throw new NetworkError('Broken', `${attachment.containerId} is connected already, in namespace ${known.attachment.netns}`);
          }
          if (known) await this.#disconnect(known); // an earlier ADD was interrupted
          const record: AttachmentRecord = { attachment, list };
          await this.#records.put(record);
          try {
            const result = await chain.add(list, attachment, signal);
            await this.#records.put({ ...record, result });
            await this.#options.attached?.(result);
            return toNetworkResult(result);
          } catch (error) {
            await this.#disconnect(record).catch((failure: unknown) =>
              context.log.warn(
                { containerId: attachment.containerId, error: String(failure) },
                'could not undo a failed ADD; gc tries again',
              ),
            );
            throw asNetworkError(error);
          }
        },
      ),
    );
  }

  async check(attachment: Attachment, { signal, spanContext }: NetworkCallOptions = {}): Promise<void> {
    validateNames(attachment);
    const { context, chain } = this.#options;
    await this.#gate.run(attachmentKey(attachment), () =>
      inSpan(context.tracer, 'CNI CHECK', { spanContext }, async () => {
        signal?.throwIfAborted();
        const record = this.#records.get(attachment);
        if (!record?.result) throw new NetworkError('Broken', `${attachment.containerId} is not connected`);
        if (attachment.netns !== undefined && attachment.netns !== record.attachment.netns)
          throw new NetworkError('Broken', `${attachment.containerId} is connected in namespace ${record.attachment.netns}`);
        await chain.check(record.list, record.attachment, record.result).catch((error: unknown) => {
          throw asNetworkError(error);
        });
      }),
    );
  }

  async del(attachment: Attachment, { spanContext }: NetworkCallOptions = {}): Promise<void> {
    validateNames(attachment);
    await this.#gate.run(attachmentKey(attachment), () =>
      inSpan(this.#options.context.tracer, 'CNI DEL', { spanContext }, async () => {
        const record = this.#records.get(attachment);
        const { list } = this;
        const work = record ? this.#disconnect(record) : list ? this.#disconnect({ attachment, list }, 'anyone') : undefined;
        await work?.catch((error: unknown) => {
          throw asNetworkError(error);
        });
      }),
    );
  }

  async gc(valid: readonly AttachmentKey[], { spanContext }: NetworkCallOptions = {}): Promise<void> {
    const { context, parallel } = this.#options;
    await this.#gate.exclusive(() =>
      inSpan(context.tracer, 'CNI GC', { spanContext }, async () => {
        const keep = new Set(valid.map(attachmentKey));
        const failures: unknown[] = [];
        const records = this.#records.all;
        await inBatches(
          records.filter(({ attachment }) => !keep.has(attachmentKey(attachment)) && !this.#gate.isBusy(attachmentKey(attachment))),
          parallel,
          (record) => this.#disconnect(record).catch((error: unknown) => void failures.push(error)),
        );
        if (this.list) await this.#gcForeign(this.list, { valid, mine: records, failures });
        if (failures.length > 0) throw asNetworkError(failures[0]);
      }),
    );
  }

  /** Runs DEL for attachments of container runtimes that no longer exist. Keeps recent attachments, which may not be in the caller's list yet. */
  async #gcForeign(
    list: NetworkList,
    {
      valid,
      mine,
      failures,
    }: { readonly valid: readonly AttachmentKey[]; readonly mine: readonly AttachmentRecord[]; readonly failures: unknown[] },
  ): Promise<void> {
    const { context, graceMs, chain, parallel } = this.#options;
    const keep = new Set(valid.map(attachmentKey));
    const oldest = context.clock.now() - graceMs;
    const known = new Set(mine.map(({ attachment }) => attachmentKey(attachment)));
    const unlisted = (await this.#options.foreign(list)).filter(
      (each) => !known.has(attachmentKey(each)) && !keep.has(attachmentKey(each)),
    );
    const fresh = unlisted.filter(({ since }) => since > oldest);
    await inBatches(
      unlisted.filter(({ since }) => since <= oldest),
      parallel,
      ({ containerId, ifName }) =>
        this.#disconnect(
          { list, attachment: { containerId, ifName, pod: { namespace: '', name: '', uid: '' }, portMappings: [] } },
          'anyone',
        ).catch((error: unknown) => void failures.push(error)),
    );
    const busy = mine.map(({ attachment }) => attachment).filter((attachment) => this.#gate.isBusy(attachmentKey(attachment)));
    await chain.gc(list, [...valid, ...fresh, ...busy]).catch((error: unknown) => void failures.push(error));
  }

  /** Runs DEL. DEL may be repeated, and succeeds if the network namespace no longer exists or never existed. */
  async #disconnect({ attachment, list, result }: AttachmentRecord, of: 'ours' | 'anyone' = 'ours'): Promise<void> {
    const { netns, ...rest } = attachment;
    const namespaceExists = netns !== undefined && (await isNamespace(netns));
    await this.#options.chain.del(list, { attachment: namespaceExists ? attachment : rest, of, result });
    if (!namespaceExists && result) await this.#options.namespaceGone?.(result);
    if (result) await this.#options.detached?.(result);
    await this.#records.remove(attachment);
  }
}

async function inBatches<T>(items: readonly T[], size: number, work: (item: T) => Promise<void>): Promise<void> {
  for (let start = 0; start < items.length; start += size) await Promise.all(items.slice(start, start + size).map(work));
}

/** Converts an error to a NetworkError, which callers of the network slot expect. */
export function asNetworkError(error: unknown): Error {
  if (error instanceof CniError) return toNetworkError(error);
  if (error instanceof Error)
    return error instanceof NetworkError || error.name === 'AbortError'
      ? error
      : new NetworkError('PluginFailed', error.message, { cause: error });
  return new NetworkError('PluginFailed', String(error));
}
