import { expect, it } from 'vitest';
import { markup, type ConsoleStage } from './stage.ts';

/** Shows content that tries to change the page. */
export function hostileContent(stage: () => ConsoleStage): void {
  it('shows markup and escape sequences of names, annotations, events and logs as text', async () => {
    const escape = String.raw`\u001b]52;c;ZXZpbA==\u0007\u001b[31mred\u001b[0m\u202e`;
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'hostile', annotations: { markup, script: 'javascript:window.attacked=1' } },
      spec: {
        restartPolicy: 'Never',
        containers: [
          {
            name: 'c',
            image: 'host',
            command: ['node', '-e', `console.log(${JSON.stringify(markup)} + "${escape}"); setInterval(() => {}, 1e6)`],
          },
        ],
      },
    };
    const event = {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: 'hostile' },
      involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace: 'default', name: 'hostile' },
      type: 'Warning',
      reason: 'Markup',
      message: markup,
      lastTimestamp: new Date().toISOString(),
    };
    for (const object of [pod, event]) await stage().cluster.kubectl.run(['create', '-f', '-'], { input: JSON.stringify(object) });
    await stage().goTo('#/o/core/v1/pods/default/hostile');
    await stage().page.getByText(markup).first().waitFor();
    await stage().tab('YAML');
    await expect.poll(() => stage().page.getByLabel('YAML of the object').inputValue()).toContain('onerror');
    await stage().tab('Logs');
    await stage().page.getByRole('log').getByText(markup).waitFor();
    const line = (await stage().page.getByRole('log').getByText(markup).textContent()) ?? '';
    expect(line.trim()).toBe(`${markup}red\uFFFD`);
    await stage().goTo('#/');
    await stage().page.getByText(markup).first().waitFor();
    expect(await stage().page.evaluate('window.attacked')).toBeUndefined();
  });

  it('gives escape sequences of programs in a terminal no effect outside of it', async () => {
    const { page, user, origin } = stage();
    await user.context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin });
    await stage().goTo('#/o/core/v1/pods/default/hostile/terminal');
    await page.getByRole('button', { name: 'Connect' }).click();
    const screen = page.locator('.xterm-rows');
    await screen.getByText(/[#$]/).first().waitFor();
    await page.evaluate(`navigator.clipboard.writeText('own')`);
    const before = [await page.title(), page.url()];
    // a write to the clipboard, titles, a report of the title as input, a link, and markup; \145 is e, so that the typed line is no result
    const output = String.raw`\033]52;c;ZXZpbA==\007\033]0;\145vil\007\033]2;\145vil\007\033[21t\033]8;;javascript:window.attacked=1\007a-link\033]8;;\007`;
    await page.keyboard.type(`printf '${output} ${markup.replaceAll('"', '')}\n'; echo $((40+2))-is-the-end\n`);
    await screen.getByText('42-is-the-end').waitFor();
    // the terminal handles the mouse above its rows
    await screen.getByText('a-link', { exact: true }).click({ force: true });
    expect([await page.title(), page.url()]).toEqual(before);
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe('own');
    expect(await screen.textContent()).not.toContain('evil');
    expect(user.context.pages()).toHaveLength(1);
    expect(await page.evaluate('window.attacked')).toBeUndefined();
    await user.context.clearPermissions();
    // keys go to the terminal as long as it has the focus
    await stage().goTo('#/o/core/v1/pods/default/hostile');
    await screen.waitFor({ state: 'detached' });
  });
}
