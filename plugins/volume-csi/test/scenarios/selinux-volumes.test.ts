import type { Pod } from '@oarlock/api/types/core-v1';
import { afterEach, describe, expect, it } from 'vitest';
import { World } from '../support/csi-environment.ts';
import { PlainDriver, plainDriverName } from '../support/plain-driver.ts';

const containersContext = 'system_u:object_r:container_file_t:s0';

describe('a driver with seLinuxMount', () => {
  let world: World;
  afterEach(() => world[Symbol.asyncDispose]());

  /** Mounts a volume for a pod with an SELinux level. Returns the mount flags of the calls of the node service. */
  async function mountFlags({
    fileContext,
    seLinuxMount = true,
    accessMode = 'ReadWriteOncePod',
  }: {
    readonly fileContext?: string;
    readonly seLinuxMount?: boolean;
    readonly accessMode?: string;
  }) {
    const driver = new PlainDriver({ nodeCapabilities: ['STAGE_UNSTAGE_VOLUME'] });
    const csiDriver = { seLinuxMount };
    world = await World.open({
      other: { name: plainDriverName, serve: (endpoint, directory) => driver.serve(endpoint, directory) },
      ...(fileContext !== undefined && { fileContext }),
      csiDriver,
    });
    const plugin = await world.plugin();
    const bound = await world.bind(await world.claim('data', { accessModes: [accessMode] }));
    const volume = { ...bound, spec: { ...bound.spec, mountOptions: ['noatime'] } };
    const request = world.request('pod', { name: 'v', persistentVolumeClaim: { claimName: 'data' } }, volume);
    const pod: Pod = {
      ...request.pod,
      spec: {
        nodeName: 'here',
        securityContext: { seLinuxOptions: { level: 's0:c1,c2' } },
        containers: [{ name: 'c', volumeMounts: [{ name: 'v', mountPath: '/v' }] }],
      },
    };
    await plugin.mount({ ...request, pod });
    const flags = driver.requests
      .filter(({ method }) => method === 'NodeStageVolume' || method === 'NodePublishVolume')
      .map(({ method, request }) => [method, (request['volumeCapability'] as { mount: { mountFlags: string[] } }).mount.mountFlags]);
    await plugin.unmount(request);
    return flags;
  }
  const both = (...flags: readonly string[]) => [
    ['NodeStageVolume', flags],
    ['NodePublishVolume', flags],
  ];

  it('gets the SELinux context of the pod as mount flag when it stages and publishes a volume', async () => {
    expect(await mountFlags({ fileContext: containersContext })).toEqual(
      both('noatime', 'context="system_u:object_r:container_file_t:s0:c1,c2"'),
    );
  });

  it.each([
    ['on a node without SELinux', {}],
    ['without seLinuxMount in the CSIDriver', { fileContext: containersContext, seLinuxMount: false }],
    ['for a volume with another access mode', { fileContext: containersContext, accessMode: 'ReadWriteOnce' }],
  ])('gets no context %s', async (_, options) => {
    expect(await mountFlags(options)).toEqual(both('noatime'));
  });
});
