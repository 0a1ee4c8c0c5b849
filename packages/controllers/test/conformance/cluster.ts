import type { KubeObject } from '@oarlock/api/object';
import { namespaces } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import type { Client } from '@oarlock/spi/client';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';

export interface Conformance {
  readonly client: Client;
  readonly namespace: string;
  /** Resolves with the first state of the objects in the namespace for which `holds` is true: it looks whenever one of them changes. */
  until<T extends KubeObject>(resource: Resource<T>, holds: (objects: readonly T[]) => boolean): Promise<readonly T[]>;
}

const patienceMs = 50_000;

/** A cluster of simulated nodes, with a namespace for each behaviour that is looked at. */
export class Nodes {
  #cluster: TestCluster | undefined;
  #count = 0;

  async start(): Promise<void> {
    this.#cluster = await startCluster({
      roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
      spec: {
        storage: 'storage-memory',
        runtimes: ['runtime-simulated'],
        settings: { kubelet: { nodeName: 'node', count: 3, port: 0 } },
      },
    });
  }
  async stop(): Promise<void> {
    await this.#cluster?.stop();
  }

  async namespace(): Promise<Conformance> {
    if (this.#cluster === undefined) throw new Error('there is no cluster');
    const { client, informers } = this.#cluster;
    const namespace = `conformance-${++this.#count}`;
    await client.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
    return {
      client,
      namespace,
      until<T extends KubeObject>(resource: Resource<T>, holds: (objects: readonly T[]) => boolean) {
        const informer = informers.of(resource);
        return new Promise<readonly T[]>((resolve, reject) => {
          let off: () => void = () => undefined;
          const end = () => {
            clearTimeout(timer);
            off();
          };
          const look = () => {
            const objects = informer.list(namespace);
            if (!informer.synced || !holds(objects)) return;
            end();
            resolve(objects);
          };
          const timer = setTimeout(() => {
            end();
            reject(new Error(`it did not come to hold; the last state: ${JSON.stringify(informer.list(namespace)).slice(0, 3000)}`));
          }, patienceMs);
          off = informer.on({ added: look, updated: look, deleted: look });
          informer.whenSynced().then(look, reject);
        });
      },
    };
  }
}
