import { useEffect, useState } from 'preact/hooks';
import { text } from '../text/en.ts';

const themes = ['auto', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];
const storageKey = 'oarlock-theme';

const storedTheme = (): Theme => themes.find((theme) => theme === localStorage.getItem(storageKey)) ?? 'auto';

/** A choice of the colors, which the page stores in the browser. */
export function ThemeSelect() {
  const [theme, setTheme] = useState<Theme>(storedTheme);
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme;
    localStorage.setItem(storageKey, theme);
  }, [theme]);
  return (
    <label class="theme">
      <span class="visually-hidden">{text.theme.label}</span>
      <select value={theme} onChange={({ currentTarget }) => setTheme(currentTarget.value as Theme)}>
        {themes.map((each) => (
          <option key={each} value={each}>
            {text.theme[each]}
          </option>
        ))}
      </select>
    </label>
  );
}
