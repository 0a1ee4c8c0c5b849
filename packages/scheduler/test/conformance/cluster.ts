import type { KubeObject } from '@oarlock/api/object';
import { namespaces, nodes, pods, priorityClasses, serviceAccounts } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import type { Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';

/** Shorter than the timeout of a test, so that the error states what did not hold. A cluster on a busy machine takes minutes to start. */
const patienceMs = 280_000;

/** The environment of a behavior: its own namespace on simulated nodes of 32 CPUs that all behaviors share. */
export interface Workbench {
  readonly cluster: TestCluster;
  readonly namespace: string;
  /** Resolves with the first state of the objects in the namespace for which `holds` is true; checks after each change. */
  until<T extends KubeObject>(resource: Resource<T>, holds: (objects: readonly T[]) => boolean, where?: string): Promise<readonly T[]>;
  pod(name: string, spec?: Partial<PodSpec>, cpu?: string): Promise<Pod>;
  /** Resolves with the pod when it has a node. */
  untilScheduled(name: string): Promise<Pod>;
  /** Resolves with the pod when its PodScheduled condition is Unschedulable. */
  untilUnschedulable(name: string): Promise<Pod>;
  priority(name: string, value: number): Promise<string>;
}

export const conditionOf = ({ status }: Pod, type: string) => status?.conditions?.find((each) => each.type === type);

export async function workbench(cluster: TestCluster, namespace: string): Promise<Workbench> {
  const { client } = cluster;
  await client.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  const until: Workbench['until'] = (resource, holds, where = namespace) => untilHolds(cluster, resource, holds, where);
  await until(serviceAccounts, (all) => all.some(({ metadata }) => metadata?.name === 'default'));
  const when = async (name: string, holds: (pod: Pod) => boolean): Promise<Pod> => {
    const found = (all: readonly Pod[]) => all.find((each) => each.metadata?.name === name && holds(each));
    const pod = found(await until(pods, (all) => found(all) !== undefined));
    if (pod === undefined) throw new Error('it was there');
    return pod;
  };
  return {
    cluster,
    namespace,
    until,
    pod: (name, spec = {}, cpu = '10m') =>
      client.create(pods, {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { namespace, name, labels: { name } },
        spec: {
          containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu }, limits: { cpu } } }],
          terminationGracePeriodSeconds: 0,
          ...spec,
        },
      }),
    untilScheduled: (name) => when(name, ({ spec }) => Boolean(spec?.nodeName)),
    untilUnschedulable: (name) => when(name, (pod) => conditionOf(pod, 'PodScheduled')?.reason === 'Unschedulable'),
    async priority(name, value) {
      const full = `${namespace}-${name}`;
      await client.create(priorityClasses, {
        apiVersion: 'scheduling.k8s.io/v1',
        kind: 'PriorityClass',
        metadata: { name: full, labels: { of: namespace } },
        value,
      });
      return full;
    },
  };
}

export async function open(): Promise<TestCluster> {
  const cluster = await startCluster({ nodes: 3 });
  await untilHolds(
    cluster,
    nodes,
    (all) =>
      all.length === 3 &&
      all.every(
        ({ spec, status }) =>
          !spec?.taints?.length && status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
      ),
  );
  await untilHolds(cluster, serviceAccounts, (all) => all.some(({ metadata }) => metadata?.name === 'default'), 'kube-system');
  return cluster;
}

function untilHolds<T extends KubeObject>(
  { informers }: TestCluster,
  resource: Resource<T>,
  holds: (objects: readonly T[]) => boolean,
  namespace?: string,
): Promise<readonly T[]> {
  const informer = informers.forResource(resource);
  return new Promise<readonly T[]>((resolve, reject) => {
    let off: () => void = () => undefined;
    const end = () => {
      clearTimeout(timer);
      off();
    };
    const look = () => {
      const objects = informer.list(namespace);
      if (!informer.hasSynced || !holds(objects)) return;
      end();
      resolve(objects);
    };
    const timer = setTimeout(() => {
      end();
      reject(new Error(`condition not met; the last state: ${JSON.stringify(informer.list(namespace)).slice(0, 3000)}`));
    }, patienceMs);
    off = informer.addEventHandler({ onAdd: look, onUpdate: look, onDelete: look });
    informer.whenSynced().then(look, reject);
  });
}
