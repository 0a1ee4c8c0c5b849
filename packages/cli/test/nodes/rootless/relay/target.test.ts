import { expect, it } from 'vitest';
import { formatTarget, maxTargetBytes, parseTarget } from '../../../../src/nodes/rootless/relay/target.ts';

it('reads what it writes', () => {
  const target = { protocol: 'udp', address: '255.255.255.255', port: 65_535 } as const;
  const line = formatTarget(target);
  expect(line.length).toBeLessThanOrEqual(maxTargetBytes);
  expect(parseTarget(line.trimEnd())).toEqual(target);
});

it.each([
  '',
  'tcp',
  'tcp 10.0.0.1',
  'tcp 10.0.0.1 0',
  'tcp 10.0.0.1 65536',
  'tcp 10.0.0.256 1',
  'sctp 10.0.0.1 1',
  'tcp host 1',
  'tcp 10.0.0.1 1 1',
])('rejects %j', (line) => {
  expect(parseTarget(line)).toBeUndefined();
});
