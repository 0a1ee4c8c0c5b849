import { setTimeout as delay } from 'node:timers/promises';
import type { Fault } from './faults.ts';
import type { ServerMachine } from './server-machines.ts';

/**
 * Returns the faults of machines with a server and a member each. Each leaves two machines that work, except `restart of everything`. The first three are
 * those of a short run.
 */
export function machineFaultsOf(machines: readonly ServerMachine[], random: () => number): readonly Fault[] {
  const pick = (): ServerMachine => {
    const found = machines[Math.floor(random() * machines.length)];
    if (found === undefined) throw new Error('there is no machine');
    return found;
  };
  const pause = (maxMs: number) => delay(500 + random() * maxMs);
  const othersOf = (one: ServerMachine) => machines.filter((each) => each !== one);
  const cut = (name: string, partition: Parameters<ServerMachine['cutOff']>[1]): Fault => ({
    name,
    async inject() {
      const one = pick();
      await one.cutOff(othersOf(one), partition);
      await pause(4000);
      await one.heal();
    },
  });
  return [
    {
      name: 'kill -9 of a machine',
      async inject() {
        const one = pick();
        await one.kill9();
        await pause(1500);
        await one.start();
      },
    },
    {
      name: 'SIGSTOP of a machine',
      async inject() {
        const one = pick();
        await one.signalAll('SIGSTOP');
        await pause(4000);
        await one.signalAll('SIGCONT');
      },
    },
    {
      name: 'restart of everything',
      async inject() {
        await Promise.all(machines.map((each) => each.kill9()));
        await Promise.all(machines.map((each) => each.start()));
      },
    },
    cut('partition both ways', 'both ways'),
    cut('partition of incoming packets', 'incoming'),
    cut('partition of outgoing packets', 'outgoing'),
    {
      name: 'loss of packets',
      async inject() {
        const one = pick();
        await one.loseIncoming(20);
        await pause(4000);
        await one.heal();
      },
    },
  ];
}
