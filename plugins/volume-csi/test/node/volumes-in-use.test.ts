import { nodes, volumeAttachments } from '@oarlock/api/resources';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { attachmentName, VolumesInUse } from '../../src/node/volumes-in-use.ts';

const driver = 'csi.test';

/** Waits for a volume whose VolumeAttachment has this status, until the time limit. Returns the error, and the drivers that reported exhaustion. */
async function waitUntilTimeout(status: object) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  try {
    api.seed(nodes, { metadata: { name: 'here' } });
    api.seed(volumeAttachments, {
      metadata: { name: attachmentName(driver, 'v1', 'here') },
      spec: { attacher: driver, nodeName: 'here', source: { persistentVolumeName: 'pv' } },
      status: { attached: false, ...status },
    });
    const exhausted: string[] = [];
    const inUse = new VolumesInUse({
      client: api.client(),
      clock,
      nodeName: 'here',
      node: () => api.informers.forResource(nodes),
      attachTimeoutMs: 120_000,
      onResourceExhausted: (name) => exhausted.push(name),
    });
    const error = inUse.waitForAttachment({ driver, volumeHandle: 'v1', volumeName: 'pv' }, undefined).catch((reason: unknown) => reason);
    await clock.advance(120_001);
    return { error: await error, exhausted };
  } finally {
    await api.stop();
  }
}

describe('a volume that is not attached in time', () => {
  it('is not ready', async () => {
    expect(await waitUntilTimeout({})).toMatchObject({ error: { code: 'NotReady' }, exhausted: [] });
  });

  it('is not ready after another error of the driver', async () => {
    expect(await waitUntilTimeout({ attachError: { errorCode: 13 } })).toMatchObject({ error: { code: 'NotReady' }, exhausted: [] });
  });

  it('has no capacity on the node if the driver reported ResourceExhausted', async () => {
    expect(await waitUntilTimeout({ attachError: { errorCode: 8 } })).toMatchObject({
      error: { code: 'ResourceExhausted' },
      exhausted: [driver],
    });
  });
});
