import { nodes, persistentVolumeClaims, persistentVolumes, pods, volumeAttachments } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import attachDetach from '@oarlock/controllers/volume/attach-detach/attach-detach-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../../support/running-controllers.ts';

const inUse = 'kubernetes.io/csi/x.io^h1';
const pod = (name: string, nodeName: string): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name },
  spec: { nodeName, containers: [{ name: 'c', image: 'a' }], volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }] },
});
const seed = (api: MemoryApi) => {
  for (const name of ['n1', 'n2']) api.seed(nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name }, status: {} });
  api.seed(persistentVolumeClaims, {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { namespace: 'd', name: 'data' },
    spec: { volumeName: 'v1' },
    status: { phase: 'Bound' },
  });
  api.seed(persistentVolumes, {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: 'v1' },
    spec: { accessModes: ['ReadWriteOnce'], csi: { driver: 'x.io', volumeHandle: 'h1' }, claimRef: { namespace: 'd', name: 'data' } },
    status: { phase: 'Bound' },
  });
};
/** Acts as the external attacher. */
const attacher = async (api: MemoryApi) => {
  const open = api.objects(volumeAttachments).find(({ status }) => status?.attached !== true);
  if (open === undefined) return false;
  await api.client().update(volumeAttachments, { ...open, status: { attached: true } }, { subresource: 'status' });
  return true;
};
const attached = (api: MemoryApi, name: string) => api.object(nodes, { name })?.status?.volumesAttached?.map((each) => each.name) ?? [];
const use = (api: MemoryApi, name: string, volumesInUse: readonly string[]) =>
  api.client().patch(nodes, { name }, 'merge', { status: { volumesInUse } }, { subresource: 'status' });

describe('AttachDetachController', () => {
  it('attaches volumes of scheduled pods, updates the node status, and detaches when the node no longer uses them', async () => {
    const life = await runControllers([attachDetach], { defaults: false, seed });
    const { api, clock } = life;
    api.seed(pods, pod('p', 'n1'));
    await clock.settle();
    const [attachment] = api.objects(volumeAttachments);
    expect(attachment).toMatchObject({ spec: { attacher: 'x.io', nodeName: 'n1', source: { persistentVolumeName: 'v1' } } });
    expect(attachment?.metadata?.name).toMatch(/^csi-[0-9a-f]{64}$/);
    expect(attached(api, 'n1')).toEqual([]);
    await attacher(api);
    await clock.settle();
    expect(attached(api, 'n1')).toEqual([inUse]);
    expect(life.messages('SuccessfulAttachVolume')).toEqual(['AttachVolume.Attach succeeded for volume "v1" ']);
    await use(api, 'n1', [inUse]);
    api.seed(pods, pod('other', 'n2'));
    await clock.settle();
    expect(life.messages('FailedAttachVolume')[0]).toContain('Multi-Attach error for volume "v1"');
    api.remove(pods, at('p'));
    await clock.settle();
    expect(api.objects(volumeAttachments).map(({ spec }) => spec.nodeName)).toEqual(['n1']);
    await use(api, 'n1', []);
    await clock.settle();
    expect(api.objects(volumeAttachments).map(({ spec }) => spec.nodeName)).toEqual(['n2']);
    expect(attached(api, 'n1')).toEqual([]);
  });

  it('detaches after six minutes from a node without heartbeats', async () => {
    const { api, clock } = await runControllers([attachDetach], { defaults: false, seed });
    api.seed(pods, pod('p', 'n1'));
    await clock.settle();
    await attacher(api);
    await use(api, 'n1', [inUse]);
    api.remove(pods, at('p'));
    await clock.advance(359_000);
    expect(api.objects(volumeAttachments)).toHaveLength(1);
    await clock.advance(1_000);
    expect(api.objects(volumeAttachments)).toEqual([]);
  });

  it('waits without limit for a ready node, and not at all for one that is out of service', async () => {
    const { api, clock } = await runControllers([attachDetach], { defaults: false, seed });
    api.seed(pods, pod('p', 'n1'));
    await clock.settle();
    await attacher(api);
    await use(api, 'n1', [inUse]);
    const ready = [{ type: 'Ready', status: 'True' }];
    await api.client().patch(nodes, { name: 'n1' }, 'merge', { status: { conditions: ready } }, { subresource: 'status' });
    api.remove(pods, at('p'));
    await clock.advance(3_600_000);
    expect(api.objects(volumeAttachments)).toHaveLength(1);
    const taint = { key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute', value: 'nodeshutdown' };
    await api.client().patch(nodes, { name: 'n1' }, 'merge', { spec: { taints: [taint] } });
    await clock.settle();
    expect(api.objects(volumeAttachments)).toEqual([]);
  });

  it('does not detach a volume that the node has just mounted', async () => {
    const { api, clock } = await runControllers([attachDetach], { defaults: false, seed });
    api.seed(pods, pod('p', 'n1'));
    await clock.settle();
    await attacher(api);
    await clock.settle();
    // the node writes its status between the controller's read and write
    let raced = false;
    api.failNext(({ verb, resource }) => {
      if (verb !== 'patch' || resource.kind !== 'Node' || raced) return false;
      raced = true;
      const node = api.object(nodes, { name: 'n1' });
      api.seed(nodes, { ...node, metadata: { name: 'n1' }, status: { ...node?.status, volumesInUse: [inUse] } });
      return false;
    }, new Error('never thrown'));
    api.remove(pods, at('p'));
    await clock.settle();
    expect(raced).toBe(true);
    expect(api.objects(volumeAttachments)).toHaveLength(1);
    await use(api, 'n1', []);
    await clock.settle();
    expect(api.objects(volumeAttachments)).toEqual([]);
  });

  it('lists the pods that use a volume which another node needs', async () => {
    const life = await runControllers([attachDetach], { defaults: false, seed });
    const { api, clock } = life;
    api.seed(pods, pod('p', 'n1'));
    await clock.settle();
    await attacher(api);
    await clock.settle();
    api.seed(pods, pod('q', 'n2'));
    await clock.settle();
    expect(life.messages('FailedAttachVolume')).toEqual(['Multi-Attach error for volume "v1" Volume is already used by pod(s) p']);
    await use(api, 'n1', [inUse]);
    api.remove(pods, at('p'));
    api.seed(pods, pod('r', 'n2'));
    await clock.settle();
    expect(life.messages('FailedAttachVolume')).toContain(
      'Multi-Attach error for volume "v1" Volume is already exclusively attached to one node and can\'t be attached to another',
    );
  });
});

controllerPluginContract(attachDetach, [
  {
    title: 'moves a volume with its pod to another node',
    simulateOthers: attacher,
    steps: [
      seed,
      (api) => void api.seed(pods, pod('p', 'n1')),
      (api) => {
        api.remove(pods, at('p'));
        api.seed(pods, pod('q', 'n2'));
      },
    ],
    expectResult: (api) => {
      expect(api.objects(volumeAttachments).map(({ spec }) => spec.nodeName)).toEqual(['n2']);
      expect([attached(api, 'n1'), attached(api, 'n2')]).toEqual([[], [inUse]]);
    },
  },
]);
