import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OidcProvider } from '../fixtures/oidc-provider.ts';
import { browserMissing } from '../harness/browser.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { serverDeath } from './console/connections.ts';
import { everyDialog } from './console/dialogs.ts';
import { history } from './console/history.ts';
import { hostileContent } from './console/hostile-content.ts';
import { everyTabOfWorkloads, everyView, manners } from './console/manners.ts';
import { oidc, oidcUsers } from './console/oidc.ts';
import { plugins } from './console/plugins.ts';
import { repair } from './console/repair.ts';
import { resources } from './console/resources.ts';
import { signIn } from './console/sign-in.ts';
import { ConsoleStage } from './console/stage.ts';
import { top } from './console/top.ts';
import { trace, traces } from './console/traces.ts';
import { why } from './console/why.ts';
import { changeWorkload, deleteWorkload, deploy, operateWorkload } from './console/workload.ts';

const defaultAuthn = ['authn-client-certificate', 'authn-service-account', 'authn-bootstrap-token'];
const missing = browserMissing();

describe.skipIf(missing !== undefined)(
  `the console${missing === undefined ? '' : ` (${missing})`}`,
  { retry: 0 }, // steps of one journey: what fails is tried again from the beginning, not from its middle
  () => {
    const machine = Machine.use();
    let current: ConsoleStage | undefined;
    const stage = (): ConsoleStage => {
      if (current === undefined) throw new Error('the cluster did not start');
      return current;
    };

    let dir: string | undefined;
    let provider: OidcProvider | undefined;
    const oidcProvider = (): OidcProvider => {
      if (provider === undefined) throw new Error('the OIDC provider did not start');
      return provider;
    };

    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'oarlock-e2e-'));
      provider = await OidcProvider.start({ dir, clientID: 'console', users: oidcUsers });
      const { issuer: url, certificateFile: certificateAuthorityFile } = provider;
      const claimMappings = { username: { claim: 'preferred_username', prefix: 'oidc:' }, groups: { claim: 'groups', prefix: 'oidc:' } };
      const issuer = { url, certificateAuthorityFile, audiences: ['console'] };
      const cluster = await machine.cluster({
        spec: {
          ...composition({ storage: 'embedded', runtime: 'process', network: 'host', kubelet: { port: 0 } }),
          authn: [...defaultAuthn, { use: 'authn-oidc', config: { jwt: [{ issuer, claimMappings }] } }, 'authn-anonymous'],
          paths: [{ use: 'console', config: { oidc: { issuerURL: url, clientID: 'console', certificateAuthorityFile } } }],
        },
      });
      provider.redirectUri = `https://127.0.0.1:${cluster.port}/console/`;
      current = await ConsoleStage.open(cluster);
    });
    afterAll(async () => {
      await current?.close();
      await provider?.stop();
      if (dir !== undefined) await rm(dir, { recursive: true, force: true });
    });

    // in the order in which each step needs the results of earlier ones
    for (const steps of [
      ...[signIn, deploy, trace, why, top, changeWorkload, operateWorkload, traces, plugins, resources],
      ...[serverDeath, hostileContent, manners, deleteWorkload, everyView, repair, everyTabOfWorkloads, everyDialog],
    ])
      steps(stage);
    oidc(stage, oidcProvider);
    history(stage);

    it('caused no error and no violation of its policy', () => {
      expect(stage().user.faults).toEqual([]);
    });
  },
);
