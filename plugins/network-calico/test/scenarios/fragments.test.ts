import { execFileSync } from 'node:child_process';
import { listenForDatagrams } from '@oarlock/testing/network/datagram-listener';
import { datagram, fragments, sendFrame } from '@oarlock/testing/network/frames';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, describe, expect, it } from 'vitest';
import { openCalico, type CalicoFixture } from '../support/calico-fixture.ts';

const hostLink = 'ee:ee:ee:ee:ee:ee';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('a fragment with the source address of another pod', () => {
    let fixture: CalicoFixture | undefined;
    afterEach(() => fixture?.dispose());

    async function attach({ driver, newNetns }: CalicoFixture, name: string) {
      const { path: netns } = await newNetns();
      const pod = { namespace: 'a', name, uid: name };
      const { ips } = await driver.add({ containerId: name, ifName: 'eth0', netns, pod, portMappings: [] });
      const links = execFileSync('nsenter', [`--net=${netns}`, 'ip', '-j', 'link', 'show', 'dev', 'eth0'], { encoding: 'utf8' });
      const [link] = JSON.parse(links) as readonly { readonly address: string }[];
      return { netns, address: ips[0] ?? '', link: link?.address ?? '' };
    }

    it.each([
      { family: 4, range: '10.231.27.0/24' },
      { family: 6, range: 'fd00:231:27::/64' },
    ] as const)('does not become part of a datagram of that pod over IPv$family', async ({ family, range }) => {
      const opened = (fixture = await openCalico({ node: { podCIDRs: [range], clusterCIDRs: [range] } }));
      await opened.driver.setup(opened.node);
      const [good, bad, target] = [await attach(opened, 'good'), await attach(opened, 'bad'), await attach(opened, 'target')];
      const output = await listenForDatagrams(target.netns, family);
      const frame = (from: typeof good, text: string) =>
        datagram({
          from: { link: from.link, address: good.address, port: 5000 },
          to: { link: hostLink, address: target.address, port: 9000 },
          text,
        });
      // both have the checksum of the whole datagram, as a sender that knows the rest of it can arrange
      const [forged, honest] = [fragments(frame(bad, 'begin-forged-end'), 16, 7), fragments(frame(good, 'begin-forged-end'), 16, 7)];
      const [whole, whole2] = fragments(frame(good, 'begin-honest-end'), 16, 8);
      sendFrame(bad.netns, forged[1]);
      sendFrame(good.netns, honest[0]);
      for (const fragment of [whole, whole2]) sendFrame(good.netns, fragment);
      sendFrame(good.netns, frame(good, 'end'));
      expect(await output()).toBe('ready\nbegin-honest-end\nend\n');
    });
  });
