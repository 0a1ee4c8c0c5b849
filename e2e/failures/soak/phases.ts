import { until } from '../../harness/until.ts';
import { isTrue, type Node } from './model/stored-object.ts';
import { homes, pathOf, type Place, type User } from './user.ts';
import type { ObjectIndex } from './model/object-index.ts';

const merge = { 'content-type': 'application/merge-patch+json' };
const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.soak.example.com' },
  spec: {
    group: 'soak.example.com',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties: { size: { type: 'integer' } } } } },
        },
      },
    ],
  },
};
const storageClass = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: 'soak' },
  provisioner: 'soak.example.com/none',
};
const quota = {
  apiVersion: 'v1',
  kind: 'ResourceQuota',
  metadata: { name: 'limit' },
  spec: { hard: { pods: '10', 'requests.cpu': '20', 'count/configmaps': '6' } },
};

/** Creates the objects that must exist first. */
export async function prepare(user: User, world: ObjectIndex, nodes: number): Promise<void> {
  const make = (path: string, body: object) =>
    until(`${path}`, async () => {
      const answer = await user.ask('POST', path, body);
      return answer?.status === 201 || answer?.status === 409;
    });
  for (const name of [...homes, 'writes']) await make('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  await make('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition);
  await make('/apis/storage.k8s.io/v1/storageclasses', storageClass);
  await make('/api/v1/namespaces/soak-quota/resourcequotas', quota);
  const ready = () => [...world.kind<Node>('Node')].filter(({ status }) => isTrue(status?.conditions, 'Ready')).length === nodes;
  if (!(await world.until(ready, 180_000))) throw new Error(`fewer than ${nodes} nodes are ready`);
}

/** Users send no request that streams or waits. */
export async function rest(user: User, world: ObjectIndex): Promise<void> {
  const patch = async (kind: Place, spec: object, which: (spec: object) => boolean) => {
    for (const each of [...world.kind(kind)])
      if (which(each.spec ?? {}))
        await until(`${kind} ${each.metadata.name}`, async () => {
          const answer = await user.ask('PATCH', pathOf(kind, each.metadata.namespace ?? '', each.metadata.name), { spec }, merge);
          return answer !== undefined && (answer.status < 300 || answer.status === 404);
        });
  };
  await patch('Deployment', { paused: false }, (spec) => 'paused' in spec && spec.paused === true);
  await patch('CronJob', { suspend: true }, () => true);
  await patch('Job', { suspend: false }, (spec) => 'suspend' in spec && spec.suspend === true);
}
