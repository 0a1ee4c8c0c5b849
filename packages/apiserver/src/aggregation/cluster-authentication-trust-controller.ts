import { jsonEqual } from '@oarlock/api/json/json';
import { configMaps } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ConfigMap } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { CoalescingRunner } from '@oarlock/primitives/concurrency/coalescing-runner';
import type { Logger } from '@oarlock/primitives/logger';
import type { ClusterKeys, FrontProxyKeys } from '@oarlock/spi/cluster';
import { LoopbackClient } from '../controllers/loopback-client.ts';
import { LoopbackInformer } from '../controllers/loopback-informer.ts';
import type { RequestHandler } from '../endpoints/request/response.ts';
import {
  certificatesWithout,
  mergeAuthenticationInfo,
  type ClusterAuthenticationInfo,
  type RemovedCertificates,
} from './cluster-authentication-info.ts';

export interface ClusterAuthenticationTrustOptions {
  readonly pipeline: RequestHandler;
  readonly keys: Pick<ClusterKeys, 'caBundle' | 'removedCaBundle'>;
  readonly frontProxy: FrontProxyKeys;
  readonly clock: Clock;
  readonly log: Logger;
}

const configMapName = { name: 'extension-apiserver-authentication', namespace: 'kube-system' };
/** The number of write conflicts with other API servers after which the run fails and is retried later. */
const maxConflicts = 10;

/**
 * Publishes in ConfigMap kube-system/extension-apiserver-authentication how extension API servers authenticate this API server
 * (clusterauthenticationtrust upstream). The data of other API servers is kept. Publishes again when the ConfigMap is changed or deleted.
 */
export class ClusterAuthenticationTrustController {
  readonly #client: LoopbackClient;
  readonly #configMaps: LoopbackInformer<ConfigMap>;
  readonly #runner: CoalescingRunner;
  readonly #clock: Clock;
  readonly #own: ClusterAuthenticationInfo;
  /**
   * The certificates that the first write removes. Later writes do not remove them: an API server that still has these CAs would add them
   * again, and the two servers would overwrite each other forever.
   */
  #removed: RemovedCertificates | undefined;

  constructor(options: ClusterAuthenticationTrustOptions) {
    const { keys, frontProxy, clock } = options;
    this.#client = new LoopbackClient(options.pipeline);
    this.#clock = clock;
    this.#own = { clientCa: keys.caBundle, requestHeaderCa: frontProxy.caBundle, requestHeaderAllowedNames: [frontProxy.commonName] };
    this.#removed = {
      clientCa: keys.removedCaBundle ?? '',
      // earlier versions published the cluster CA here, which made each client certificate with the right common name a front proxy
      requestHeaderCa: frontProxy.removedCaBundle + certificatesWithout(keys.caBundle, frontProxy.caBundle),
    };
    this.#runner = new CoalescingRunner({
      ...options,
      failureMessage: `publishing ConfigMap ${configMapName.namespace}/${configMapName.name} failed`,
      run: () => this.#publish(),
    });
    this.#configMaps = new LoopbackInformer(configMaps, {
      ...options,
      namespace: configMapName.namespace,
      fieldSelector: `metadata.name=${configMapName.name}`,
      onChange: () => void this.#runner.trigger(),
    });
  }

  /** Starts to publish. Resolves after the first attempt, even if the attempt fails. */
  async start(): Promise<void> {
    await this.#configMaps.start();
    await this.#runner.trigger();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#configMaps.stop(), this.#runner.stop()]);
  }

  async #publish(): Promise<void> {
    for (let conflicts = 0; ; conflicts++) {
      try {
        await this.#writeMerged();
        this.#removed = undefined;
        return;
      } catch (error) {
        if (!isStatus(error, 'Conflict', 'AlreadyExists') || conflicts >= maxConflicts) throw error;
      }
    }
  }

  async #writeMerged(): Promise<void> {
    const present = await this.#read();
    const existing = present?.data ?? {};
    const data = mergeAuthenticationInfo(existing, this.#own, {
      now: this.#clock.now(),
      ...(this.#removed !== undefined && { removed: this.#removed }),
    });
    if (present === undefined) await this.#client.create(configMaps, { metadata: configMapName, ...{ data } });
    else if (!jsonEqual(existing, data)) await this.#update(present, data);
  }

  async #update(present: ConfigMap, data: ConfigMap['data']): Promise<void> {
    try {
      await this.#client.update(configMaps, { ...present, ...{ data } });
    } catch (error) {
      if (!isStatus(error, 'Invalid', 'RequestEntityTooLarge')) throw error;
      // others have filled the ConfigMap: start again with the data of this server, as upstream does
      const own = mergeAuthenticationInfo({}, this.#own, { now: this.#clock.now() });
      await this.#client.update(configMaps, { ...present, ...{ data: own } });
    }
  }

  async #read(): Promise<ConfigMap | undefined> {
    try {
      return await this.#client.get(configMaps, { metadata: configMapName });
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }
}
