import { duplexPair } from 'node:stream';
import type { KubeletDoor } from '@oarlock/spi/local-nodes';
import { expect, it } from 'vitest';
import { NodesOfProcess } from '../src/local-nodes.ts';

const door = (port: number): KubeletDoor => ({ host: '127.0.0.1', port, connect: () => duplexPair()[0] });

it('keeps the doors of kubelets by the names of their nodes until they are taken back', () => {
  const nodes = new NodesOfProcess();
  const [first, second] = [door(1), door(2)];
  const withdrawFirst = nodes.offer(['a', 'b'], first);
  expect([nodes.find('a'), nodes.find('b'), nodes.find('c')]).toEqual([first, first, undefined]);
  const withdrawSecond = nodes.offer(['b'], second);
  withdrawFirst();
  expect([nodes.find('a'), nodes.find('b')]).toEqual([undefined, second]);
  withdrawSecond();
  expect(nodes.find('b')).toBeUndefined();
});
