import { execFileSync } from 'node:child_process';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ForwardingRules, missingRules } from '../../src/routing/forwarding.ts';

const text = (direction: string) => `-A FORWARD ${direction} cali+ -m comment --comment "oarlock cali+" -j ACCEPT`;

describe('what FORWARD lacks', () => {
  it('is nothing where it lets everything through', () => {
    expect(missingRules('-P FORWARD ACCEPT\n', 'cali+')).toEqual([]);
  });
  it('are two rules where it drops, or does something else', () => {
    for (const shown of ['-P FORWARD DROP\n', '-P FORWARD ACCEPT\n-A FORWARD -j DOCKER-USER\n'])
      expect(missingRules(shown, 'cali+').map(([direction]) => direction)).toEqual(['-i', '-o']);
  });
  it('is what is not there yet, of this interface', () => {
    const both = `-P FORWARD DROP\n${text('-o')}\n${text('-i')}\n`;
    expect(missingRules(both, 'cali+')).toEqual([]);
    expect(missingRules(both, 'calico+')).toHaveLength(2);
    expect(missingRules(`-P FORWARD DROP\n${text('-o')}\n`, 'cali+').map(([direction]) => direction)).toEqual(['-i']);
  });
});

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('the way through FORWARD', () => {
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

    it('costs no packet anything while everything gets through', async () => {
      await begin();
      expect(ours()).toEqual([]);
    });
    it('is made when a firewall begins to drop, and stays when it begins again', async () => {
      await begin();
      iptables('-P', 'FORWARD', 'DROP');
      await expect.poll(ours, { timeout: 20_000 }).toEqual(['-i', '-o']);
      iptables('-F', 'FORWARD');
      iptables('-N', 'FIREWALL');
      await expect.poll(ours, { timeout: 20_000 }).toEqual(['-i', '-o']);
      iptables('-X', 'FIREWALL');
    });
    it('is there before anything else where it is needed from the beginning', async () => {
      iptables('-P', 'FORWARD', 'DROP');
      await begin();
      expect(ours()).toEqual(['-i', '-o']);
    });
    it('is made again within a minute when its rules are taken away and nobody says so', async () => {
      const clock = new FakeClock();
      iptables('-A', 'FORWARD', '-j', 'DROP');
      await begin(clock);
      iptables('-F', 'FORWARD');
      iptables('-A', 'FORWARD', '-j', 'DROP');
      await clock.advance(60_000);
      await expect.poll(ours, { timeout: 20_000 }).toEqual(['-i', '-o']);
      expect(iptables('-S', 'FORWARD').trim().split('\n').at(-1)).toBe('-A FORWARD -j DROP');
    });
  });
