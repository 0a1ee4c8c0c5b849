import { Dialog } from '../components/dialog.tsx';
import { text } from '../text/en.ts';
import { navigation } from '../views/registry.ts';

const { shortcuts } = text;
const general: readonly (readonly [string, string])[] = [
  ['/', shortcuts.search],
  ['f', shortcuts.filter],
  ['?', shortcuts.help],
  ['Esc', shortcuts.close],
  ['↑ ↓', shortcuts.move],
  ['Enter', shortcuts.open],
];

export function HelpDialog({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title={text.help} onClose={onClose}>
      <dl class="shortcuts">
        {[...general, ...navigation.map(({ keys, label }) => [keys, label] as const)].map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
