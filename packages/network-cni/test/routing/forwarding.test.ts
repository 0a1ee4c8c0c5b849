import { execFileSync } from 'node:child_process';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ForwardingRules, missingRules } from '../../src/routing/forwarding.ts';

const text = (direction: string) => `-A FORWARD ${direction} cali+ -m comment --comment "oarlock cali+" -j ACCEPT`;

describe('missing FORWARD rules', () => {
  it('are none if the chain accepts everything', () => {
    expect(missingRules('-P FORWARD ACCEPT\n', 'cali+')).toEqual([]);
  });
  it('are two rules if the chain drops or has other rules', () => {
    for (const rules of ['-P FORWARD DROP\n', '-P FORWARD ACCEPT\n-A FORWARD -j DOCKER-USER\n'])
      expect(missingRules(rules, 'cali+').map(([direction]) => direction)).toEqual(['-i', '-o']);
  });
  it('are only those of this interface that do not exist yet', () => {
    const both = `-P FORWARD DROP\n${text('-o')}\n${text('-i')}\n`;
    expect(missingRules(both, 'cali+')).toEqual([]);
    expect(missingRules(both, 'calico+')).toHaveLength(2);
    expect(missingRules(`-P FORWARD DROP\n${text('-o')}\n`, 'cali+').map(([direction]) => direction)).toEqual(['-i']);
  });
});

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('forwarding rules', () => {
    const iptables = (...args: string[]) => execFileSync('iptables', ['-w', '5', ...args], { encoding: 'utf8' });
    const ours = () =>
      [...iptables('-S', 'FORWARD').matchAll(/^-A FORWARD (-[io]) cali\+ .*oarlock cali\+/gm)].map(([, way]) => way).sort();
    let forwarding: ForwardingRules | undefined;
    beforeEach(() => {
      iptables('-F', 'FORWARD');
      iptables('-P', 'FORWARD', 'ACCEPT');
    });
    afterEach(() => forwarding?.stop());
    const begin = (clock = systemClock) => (forwarding = new ForwardingRules({ clock, log: silentLogger })).accept('cali+', new Set([4]));

    it('do not exist while everything is accepted', async () => {
      await begin();
      expect(ours()).toEqual([]);
    });
    it('are added when a firewall starts to drop, and again after its reload', async () => {
      await begin();
      iptables('-P', 'FORWARD', 'DROP');
      await expect.poll(ours).toEqual(['-i', '-o']);
      iptables('-F', 'FORWARD');
      iptables('-N', 'FIREWALL');
      await expect.poll(ours).toEqual(['-i', '-o']);
      iptables('-X', 'FIREWALL');
    });
    it('are added before anything else if they are needed from the start', async () => {
      iptables('-P', 'FORWARD', 'DROP');
      await begin();
      expect(ours()).toEqual(['-i', '-o']);
    });
    it('are added once although two set-ups of the network overlap', async () => {
      iptables('-P', 'FORWARD', 'DROP');
      await Promise.all([begin(), forwarding?.accept('cali+', new Set([4]))]);
      expect(ours()).toEqual(['-i', '-o']);
    });
    it('are restored within a minute if they are removed without an event', async () => {
      const clock = new FakeClock();
      iptables('-A', 'FORWARD', '-j', 'DROP');
      await begin(clock);
      iptables('-F', 'FORWARD');
      iptables('-A', 'FORWARD', '-j', 'DROP');
      await clock.advance(60_000);
      await expect.poll(ours).toEqual(['-i', '-o']);
      expect(iptables('-S', 'FORWARD').trim().split('\n').at(-1)).toBe('-A FORWARD -j DROP');
    });
  });
