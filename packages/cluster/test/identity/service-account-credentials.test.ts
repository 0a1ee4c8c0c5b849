import { failure } from '@oarlock/api/status';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { parseClusterFile } from '../../src/cluster-file/cluster-file.ts';
import { shouldUseServiceAccountCredentials } from '../../src/identity/service-account-credentials.ts';
import { createPlan } from '../../src/composition/create-plan.ts';

interface Review {
  readonly spec: { readonly resourceAttributes: { readonly resource: string } };
}

describe('shouldUseServiceAccountCredentials', () => {
  const planned = async (settings: object, roles = ['controllers']) =>
    createPlan(
      parseClusterFile(JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec: { roles, settings } }), 'cluster.yaml'),
      {
        nodeName: 'n1',
        server: 'https://10.0.0.1:6443',
      },
    );
  /** A client of a user with access to these resources: `*` or `serviceaccounts`. */
  const answer = async (allowed: readonly string[], settings: object = {}, roles?: string[], faults: Error[] = []) => {
    const clock = new FakeClock();
    const asked: string[] = [];
    const raw = async (_method: string, _path: string, { spec }: Review) => {
      const { resource } = spec.resourceAttributes;
      asked.push(resource);
      const fault = faults.shift();
      if (fault !== undefined) throw fault;
      return { status: { allowed: allowed.includes(resource) } };
    };
    let own: boolean | undefined;
    void shouldUseServiceAccountCredentials(await planned(settings, roles), {
      client: { raw } as unknown as Client,
      ...{ clock, log: silentLogger, signal: new AbortController().signal, random: () => 0 },
    }).then((is) => {
      own = is;
    });
    await clock.runUntil(() => own !== undefined, { within: 60_000 });
    return { own, asked };
  };

  it('is true if the user may create tokens but may not do everything', async () => {
    expect(await answer(['serviceaccounts'])).toEqual({ own: true, asked: ['*', 'serviceaccounts'] });
    expect((await answer(['*', 'serviceaccounts'])).own).toBe(false);
    expect((await answer([])).own).toBe(false);
  });

  it('is the configured value, and false in a process without controllers', async () => {
    const controllers = (useServiceAccountCredentials: boolean) => ({ controllers: { useServiceAccountCredentials } });
    expect(await answer([], controllers(true))).toEqual({ own: true, asked: [] });
    expect(await answer(['serviceaccounts'], controllers(false))).toEqual({ own: false, asked: [] });
    expect(await answer(['serviceaccounts'], {}, ['scheduler'])).toEqual({ own: false, asked: [] });
  });

  it('retries until the server answers', async () => {
    const away = failure('ServiceUnavailable', 'connection refused');
    expect((await answer(['serviceaccounts'], {}, undefined, [away, away])).own).toBe(true);
    const forbidden = failure('Forbidden', 'no');
    expect((await answer(['*', 'serviceaccounts'], {}, undefined, [forbidden, forbidden])).own).toBe(false);
  });
});
