import { setTimeout as delay } from 'node:timers/promises';
import type { ThreeServers } from './three-servers.ts';
import type { EtcdMember } from './etcd-members.ts';

/** A fault of the machine, which ends before the promise resolves. */
export interface Fault {
  readonly name: string;
  inject(): Promise<void>;
}

/** Returns all faults. Each leaves a quorum of members and at least one server, except `restart of everything`. */
export function faultsOf({ etcd, servers }: ThreeServers, random: () => number): readonly Fault[] {
  const pick = <T>(list: readonly T[]): T => {
    const found = list[Math.floor(random() * list.length)];
    if (found === undefined) throw new Error('an empty list');
    return found;
  };
  /** Waits for a random part of `maxMs`. */
  const pause = (maxMs: number) => delay(200 + random() * maxMs);
  const restartMember = async (member: EtcdMember) => {
    await member.kill9();
    await pause(2500);
    await member.restart();
  };
  const stopMember = async (member: EtcdMember) => {
    member.signal('SIGSTOP');
    await pause(3500);
    member.signal('SIGCONT');
  };
  const leader = async () => (await etcd.leader()) ?? pick(etcd.members);
  return [
    {
      name: 'kill -9 of a server',
      async inject() {
        const server = pick(servers);
        await server.kill9();
        await pause(2000);
        await server.up();
      },
    },
    {
      name: 'SIGSTOP of a server',
      async inject() {
        const server = pick(servers);
        server.daemon.signal('SIGSTOP');
        await pause(6000);
        server.daemon.signal('SIGCONT');
      },
    },
    { name: 'kill -9 of a member', inject: () => restartMember(pick(etcd.members)) },
    { name: 'SIGSTOP of a member', inject: () => stopMember(pick(etcd.members)) },
    { name: 'kill -9 of the leader', inject: async () => restartMember(await leader()) },
    { name: 'SIGSTOP of the leader', inject: async () => stopMember(await leader()) },
    {
      name: 'kill -9 of a server and a member',
      async inject() {
        const server = pick(servers);
        await Promise.all([server.kill9(), pick(etcd.members).restart()]);
        await server.up();
      },
    },
    {
      name: 'compaction and defragmentation',
      async inject() {
        const status = JSON.parse(await etcd.etcdctl('get', '/none', '-w', 'json')) as { readonly header: { readonly revision: number } };
        await etcd.etcdctl('compact', String(status.header.revision - 100));
        await etcd.etcdctl('defrag');
      },
    },
    {
      name: 'restart of everything',
      async inject() {
        await Promise.all([...servers.map((server) => server.kill9()), ...etcd.members.map((member) => member.kill9())]);
        await Promise.all(etcd.members.map((member) => member.restart()));
        await Promise.all(servers.map((server) => server.up()));
      },
    },
  ];
}
