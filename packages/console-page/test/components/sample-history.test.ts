import { describe, expect, it } from 'vitest';
import { historyOf, SampleHistory } from '../../src/components/sample-history.ts';

const minute = 60_000;

describe('SampleHistory', () => {
  it('keeps the samples of the last hour, by name', () => {
    const history = new SampleHistory();
    for (let at = 0; at <= 90; at += 15) history.add('cpu', at * minute, at);
    history.add('memory', 0, 7);
    expect(history.of('cpu').map(({ value }) => value)).toEqual([45, 60, 75, 90]);
    expect(history.of('memory')).toEqual([{ at: 0, value: 7 }]);
    expect(history.of('other')).toEqual([]);
  });

  it('keeps a bounded number of samples', () => {
    const history = new SampleHistory();
    for (let at = 0; at < 2000; at += 1) history.add('cpu', at, at);
    expect(history.of('cpu')).toHaveLength(1000);
    expect(history.of('cpu').at(-1)).toEqual({ at: 1999, value: 1999 });
  });

  it('is the same for the same client', () => {
    const client = {};
    historyOf(client).add('cpu', 1, 2);
    expect(historyOf(client).of('cpu')).toHaveLength(1);
    expect(historyOf({}).of('cpu')).toHaveLength(0);
  });
});
