import { expect, it } from 'vitest';
import type { PodItem } from '../../harness/api.ts';
import { until } from '../../harness/until.ts';
import { idle, pod, type ChaosNode, type Identity } from './chaos-node.ts';

const words = (text: string) => text.trim().split(/\s+/);
const bare = (id: string | undefined) => id?.replace(/^\w+:\/\//, '') ?? '';

/** Tests that send kill -9 to containers, shims, the runtime, and the kubelet with the API server. */
export function killTests(node: ChaosNode): void {
  const begunAnew = (victim: Identity | undefined) =>
    node.cluster.api.until<PodItem>(`${victim?.name} runs again`, node.cluster.api.pods('default', 'steady'), (pods) => {
      const now = pods.find(({ metadata }) => metadata.name === victim?.name);
      const status = now?.status.containerStatuses?.[0];
      return (
        now?.metadata.uid === victim?.uid &&
        status?.ready === true &&
        status.restartCount === (victim?.restarts ?? 0) + 1 &&
        status.containerID !== victim?.id
      );
    });

  it('a killed container: it alone restarts, in the same sandbox', async () => {
    const before = await node.before();
    const [victim, ...others] = before.steady;
    process.kill(before.running.get(bare(victim?.id))?.pid ?? 0, 'SIGKILL');
    await begunAnew(victim);
    const [now, ...rest] = await node.steady();
    expect(now?.ip).toBe(victim?.ip);
    expect(rest).toEqual(others);
    // the exited container stays for inspection; nothing else of it is left
    await node.nothingLeaks(before);
  });

  it('a killed shim: its pod runs on or gets a new sandbox, other pods are not disturbed', async () => {
    const before = await node.before();
    const [, victim] = before.steady;
    const watchers = await node.runtime.watchersOf(node.cluster, bare(victim?.id));
    expect(watchers.length).toBeGreaterThan(0);
    for (const pid of watchers) process.kill(pid, 'SIGKILL');
    if (!node.runtime.losesUnwatched) {
      await node.unharmed(before);
      process.kill(before.running.get(bare(victim?.id))?.pid ?? 0, 'SIGKILL');
    }
    await begunAnew(victim);
    const others = (all: readonly Identity[]) => all.filter(({ name }) => name !== victim?.name);
    expect(others(await node.steady())).toEqual(others(before.steady));
    await node.nothingLeaks(before);
  });

  it('a killed runtime: containers keep running, and pods created or deleted meanwhile converge', async () => {
    const [stays, goes] = [node.name('stays'), node.name('goes')];
    const before = await node.before();
    await node.apply(pod(goes, idle));
    await node.ready(goes);
    await node.runtime.kill9(node.cluster);
    try {
      await node.apply(pod(stays, idle, node.here));
      await node.untilDeleted(stays);
      await node.delete(goes);
    } finally {
      await node.runtime.restart();
    }
    await node.ready(stays);
    await node.gone(goes);
    await node.unharmed(before);
    await node.remove(stays);
    await node.nothingLeaks(before);
  });

  it('a killed kubelet and API server: healthy pods are not disturbed, and unfinished work completes', async () => {
    const before = await node.before();
    for (let round = 0; round < 3; round++) {
      const [coming, going] = [node.name('coming'), node.name('going')];
      await node.apply(pod(going, idle));
      await node.ready(going);
      await node.apply(pod(coming, idle));
      // each time at another stage: accepted, in progress, nearly done
      if (round > 0) await node.untilDeleted(coming);
      await node.delete(going);
      if (round > 1)
        await until('its sandbox is made', async () => words(await node.events(coming, '{.items[*].reason}')).includes('Pulled'));
      await node.cluster.kill9();
      // a process that fails because the machine is too busy exits, and is restarted as by an init system
      await until('the node is up', () => node.cluster.up().then(() => true), { everyMs: 500 });
      const restarted = Date.now();
      const [come] = await node.ready(coming);
      await node.gone(going);
      await node.unharmed(before);
      // the event of an earlier start, which the runtime may have completed after the kill, is lost with its sender
      if (Date.parse(come?.status.containerStatuses?.[0]?.state?.running?.startedAt ?? '') > restarted)
        await until('the start is reported', async () => words(await node.events(coming, '{.items[*].reason}')).includes('Started'));
      await node.remove(coming);
      await node.nothingLeaks(before);
    }
  });
}
