import { expect, it } from 'vitest';
import { settingsPage } from '../../src/modes/settings-page.ts';

it('the page of the settings of pods is that of the table', async () => {
  await expect(settingsPage()).toMatchFileSnapshot('../../SETTINGS.md');
});
