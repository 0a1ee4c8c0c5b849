import { duplexPair } from 'node:stream';
import type { LocalKubelet } from '@oarlock/spi/local-nodes';
import { expect, it } from 'vitest';
import { LocalNodeRegistry } from '../../src/composition/local-node-registry.ts';

const kubeletAt = (port: number): LocalKubelet => ({ host: '127.0.0.1', port, connect: () => duplexPair()[0] });

it('LocalNodeRegistry finds kubelets by node name until they are unregistered', () => {
  const nodes = new LocalNodeRegistry();
  const [first, second] = [kubeletAt(1), kubeletAt(2)];
  const withdrawFirst = nodes.register(['a', 'b'], first);
  expect([nodes.find('a'), nodes.find('b'), nodes.find('c')]).toEqual([first, first, undefined]);
  const withdrawSecond = nodes.register(['b'], second);
  withdrawFirst();
  expect([nodes.find('a'), nodes.find('b')]).toEqual([undefined, second]);
  withdrawSecond();
  expect(nodes.find('b')).toBeUndefined();
});
