import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { busyboxImage } from '../fixtures/test-image.ts';
import { accessibilityFaults, browserMissing } from '../harness/browser.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { Daemon, freePort } from '../harness/programs.ts';
import { everyView } from './console/every-view.ts';
import { ConsoleStage } from './console/stage.ts';

const missing = browserMissing() ?? (await componentMissing.containerd());

/** A web server whose first instance ends. It listens on all addresses of the pod, and shares `/data` between its instances. */
const script = (port: number) => `
  if [ ! -e /data/ended ]; then echo the first instance of $HOSTNAME; touch /data/ended; exit 3; fi
  echo the second instance of $HOSTNAME
  mkdir -p /tmp/www && echo hello from a pod > /tmp/www/index.html
  exec httpd -f -p ${port} -h /tmp/www`;

const workload = (port: number) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web' },
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: 'web' } },
    template: {
      metadata: { labels: { app: 'web' } },
      spec: {
        terminationGracePeriodSeconds: 1,
        volumes: [{ name: 'data', emptyDir: {} }],
        containers: [
          {
            name: 'web',
            image: busyboxImage,
            command: ['sh', '-c', script(port)],
            ports: [{ containerPort: port }],
            volumeMounts: [{ name: 'data', mountPath: '/data' }],
            readinessProbe: { httpGet: { path: '/', port }, periodSeconds: 1 },
          },
        ],
      },
    },
  },
});

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `the console on containerd${missing === undefined ? '' : ` (${missing})`}`,
  { retry: 0 }, // steps of one journey
  () => {
    const machine = Machine.use();
    let stage: ConsoleStage | undefined;
    let port: number;
    const open = (): ConsoleStage => {
      if (stage === undefined) throw new Error('the cluster did not start');
      return stage;
    };

    beforeAll(async () => {
      const containerd = await machine.containerd();
      const spec = composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd });
      const cluster = await machine.cluster({ spec: { ...spec, paths: ['console'] } });
      port = await freePort();
      await cluster.kubectl.apply([workload(port)]);
      await cluster.kubectl.run(['rollout', 'status', 'deployment/web', '--timeout=180s']);
      stage = await ConsoleStage.open(cluster);
      // the printed link has the address of the node
      await stage.open(`${stage.origin}${new URL(stage.printedLink).pathname}${new URL(stage.printedLink).hash}`);
      await stage.heading('Overview');
    });
    afterAll(() => stage?.close());

    it('shows the logs of both pods, and of their previous instances', async () => {
      const { page } = open();
      await open().goTo('#/o/apps/v1/deployments/default/web/logs');
      const log = page.getByRole('log');
      await expect.poll(() => log.getByText('the second instance of web-').count()).toBe(2);
      await page.getByLabel('Previous instance').check();
      // the status line has the reason why a log could not be read
      const logAndStatus = async () => `${(await page.getByRole('status').allInnerTexts()).join(' ')}\n${await log.innerText()}`;
      await expect.poll(logAndStatus).toMatch(/the first instance of web-[^]*the first instance of web-/);
      expect(await log.getByText('the second instance').count()).toBe(0);
    });

    it('opens a terminal in a container, and in a debug container beside it', async () => {
      const { page, cluster } = open();
      const [pod = ''] = (await cluster.kubectl.run(['get', 'pods', '-o', 'jsonpath={.items[*].metadata.name}'])).split(' ');
      const run = async (command: string, output: string) => {
        await page.getByRole('button', { name: 'Connect' }).click();
        await page.locator('.xterm-rows').getByText(/[#$]/).first().waitFor();
        await page.keyboard.type(`${command}\n`);
        await page.locator('.xterm-rows').getByText(output).first().waitFor();
        await page.getByRole('button', { name: 'Disconnect' }).click();
      };
      await open().goTo(`#/o/core/v1/pods/default/${pod}/terminal`);
      await run('echo from $HOSTNAME && ls /data', `from ${pod}`);
      await open().goTo(`#/o/core/v1/pods/default/${pod}`);
      await page.getByRole('button', { name: 'Debug container' }).click();
      await page.getByLabel('Image').fill(busyboxImage);
      await page.getByRole('dialog').getByRole('combobox').selectOption('web');
      await page.getByRole('button', { name: 'Add', exact: true }).click();
      await page.getByRole('button', { name: 'Connect' }).waitFor();
      const started = ['get', 'pod', pod, '-o', 'jsonpath={.status.ephemeralContainerStatuses[0].state.running.startedAt}'];
      await expect.poll(() => cluster.kubectl.run(started)).not.toBe('');
      await page
        .locator('main')
        .getByRole('combobox')
        .last()
        .selectOption({ label: await ephemeralName(pod) });
      // the debug container has the processes of its target, and not its volume
      await run('ls /data || ps | grep -c "[h]ttpd" | sed s/^/servers:/', 'servers:1');
    });
    const ephemeralName = (pod: string): Promise<string> =>
      open().cluster.kubectl.run(['get', 'pod', pod, '-o', 'jsonpath={.spec.ephemeralContainers[0].name}']);

    it('forwards a port by the command that it shows, to the link that it shows', async () => {
      const { page, user, cluster } = open();
      await open().goTo('#/o/apps/v1/deployments/default/web');
      await page.getByRole('button', { name: 'Port forward' }).click();
      const command = (await page.getByText('kubectl port-forward').textContent())?.trim().split(/\s+/) ?? [];
      const forward = new Daemon(cluster.kubectl.file, command.slice(1), { env: cluster.kubectl.env });
      try {
        await forward.line(/^Forwarding from 127\.0\.0\.1/);
        const opened = user.context.waitForEvent('page');
        await page.getByRole('link', { name: `http://localhost:${port}` }).click();
        await (await opened).getByText('hello from a pod').waitFor();
      } finally {
        await forward.stop();
      }
      expect(user.faults).toEqual([]);
    });

    it('opens every view, without a fault of accessibility', async () => {
      const { page, user, cluster } = open();
      const nameOf = (kind: string) => cluster.kubectl.run(['get', kind, '-o', 'jsonpath={.items[0].metadata.name}']);
      const faults: string[] = [];
      for (const [what, hash, content] of everyView({ deployment: 'web', pod: await nameOf('pods'), node: await nameOf('nodes') })) {
        await open().goTo(hash);
        await page.locator('main').getByText(content).first().waitFor();
        faults.push(...(await accessibilityFaults(page)).map((fault) => `${what}: ${fault}`));
      }
      expect(faults).toEqual([]);
      expect(user.faults).toEqual([]);
    });
  },
);
