import { describe, expect, it } from 'vitest';
import { ApiClient } from '../../src/api/client.ts';
import { featuresOf, offeredBy, readFeatures } from '../../src/api/server-features.ts';

const clientOf = (status: number, body: object) =>
  new ApiClient(
    () => Promise.resolve(new Response(JSON.stringify(body), { status })),
    () => 'k',
  );

describe('the features of a server', () => {
  it.each([
    ['v1.36.0+oarlock.0.1.0', true],
    ['v1.36.0', false],
    ['v1.33.4+k3s1', false],
    ['v1.32.1-gke.1002001', false],
    ['', false],
  ])('follow from the version %s', (version, isOarlock) => {
    expect(featuresOf(version)).toEqual({ isOarlock });
  });

  it('are none for a server that does not show its version to the user', async () => {
    expect(await readFeatures(clientOf(200, { gitVersion: 'v1.36.0+oarlock.0.1.0' }))).toEqual({ isOarlock: true });
    expect(await readFeatures(clientOf(403, { message: 'forbidden' }))).toEqual({ isOarlock: false });
    await expect(readFeatures(clientOf(500, { message: 'broken' }))).rejects.toThrow('broken');
  });

  it('decide which views are offered', () => {
    const views = [{ id: 'traces', onlyOarlock: true }, { id: 'why' }];
    expect(offeredBy({ isOarlock: false }, views)).toEqual([{ id: 'why' }]);
    expect(offeredBy({ isOarlock: true }, views)).toEqual(views);
  });
});
