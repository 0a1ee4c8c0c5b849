import { Dialog } from '../components/dialog.tsx';
import { text } from '../text/en.ts';
import { navigationOf } from '../views/registry.ts';
import { useApp } from './context.ts';

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
  const { features } = useApp();
  return (
    <Dialog title={text.help} onClose={onClose}>
      <dl class="shortcuts">
        {[...general, ...navigationOf(features).map(({ keys, label }) => [keys, label] as const)].map(([keys, meaning]) => (
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
