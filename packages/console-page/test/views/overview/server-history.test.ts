import { describe, expect, it } from 'vitest';
import { historyOf } from '../../../src/components/sample-history.ts';
import { loadServerHistory } from '../../../src/views/overview/server-history.ts';
import { fakeClient } from '../../api/support.ts';

const { signal } = new AbortController();
const minute = 60_000;

describe('the samples of the server', () => {
  it('are plotted before those of the page, in the time of the browser', async () => {
    const samples = { watches: [1, 2, 3].map((value) => ({ at: (value - 3) * minute, value })) };
    const { client } = fakeClient([{ json: { now: 0, samples } }, { json: { now: 0, samples } }]);
    historyOf(client).add('watches', 100 * minute + 1, 7);
    for (let load = 0; load < 2; load += 1) await loadServerHistory(client, { signal, now: () => 100 * minute });
    expect(historyOf(client).of('watches')).toEqual([
      { at: 98 * minute, value: 1 },
      { at: 99 * minute, value: 2 },
      { at: 100 * minute, value: 3 },
      { at: 100 * minute + 1, value: 7 },
    ]);
  });

  it.each([403, 404])('are absent where the server answers %i', async (status) => {
    const { client } = fakeClient([{ json: { message: 'no' }, status }]);
    await loadServerHistory(client, { signal });
    expect(historyOf(client).of('watches')).toEqual([]);
  });

  it('are not loaded while the page is viewed as another user', async () => {
    const { client, requests } = fakeClient([]);
    client.impersonation = { user: 'bob', groups: [] };
    await loadServerHistory(client, { signal });
    expect(requests).toEqual([]);
  });
});
