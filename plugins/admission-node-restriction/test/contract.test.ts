import 'reflect-metadata';
import { nodes, persistentVolumeClaims, persistentVolumes, pods } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission } from '@oarlock/spi/admission';
import { admissionContract } from '@oarlock/spi/admission/contract';
import { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import plugin from '../src/plugin.ts';
import { snapshotContents, onNode, volume } from './support/node-requests.ts';
import { allowed } from './support/allowed-requests.ts';
import { denied } from './support/denied-requests.ts';

admissionContract('admission-node-restriction', () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(nodes, { metadata: { name: 'n1', uid: 'uid-n1' } }, { metadata: { name: 'n2', uid: 'uid-n2' } });
  for (const [name, nodeName] of [
    ['here', 'n1'],
    ['there', 'n2'],
  ] as const)
    api.seed(pods, { metadata: { namespace: 'd', name, uid: `uid-${name}` }, spec: { nodeName, containers: [] } });
  for (const [name, on] of [
    ['ours', 'n1'],
    ['theirs', 'n2'],
    ['taken', 'n1'],
  ] as const) {
    api.seed(persistentVolumes, { ...volume(onNode, [on]), metadata: { name } });
    api.seed(persistentVolumeClaims, { metadata: { namespace: 'd', name: `of-${name}` }, spec: { volumeName: name } });
  }
  api.seed(snapshotContents, {
    metadata: { name: 'snapcontent-uid-of-taken', labels: { 'snapshot.storage.kubernetes.io/managed-by': 'n2' } },
  });
  const [created] = new PluginHost({ clock }).provide(Client, api.client()).add({ plugin }).get(Admission);
  if (created === undefined) throw new Error('not created');
  return {
    plugin: created,
    cases: [
      ...denied.map(([title, request, message]) => ({ title, request, message, expected: 'denied' as const })),
      ...allowed.map(([title, request]) => ({ title, request, expected: 'allowed' as const })),
    ],
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
    failDependencies: () => api.failNext({ verb: 'get' }, failure('ServiceUnavailable', 'the store is unavailable'), 10_000),
    dispose: () => api.stop(),
  };
});
