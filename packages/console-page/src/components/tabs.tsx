export interface Tab {
  readonly id: string;
  readonly label: string;
  readonly href: string;
}

/** Links to the parts of a page. */
export function Tabs({ label, tabs, current }: { readonly label: string; readonly tabs: readonly Tab[]; readonly current: string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ id, label: name, href }) => (
        <a key={id} href={href} {...(id === current && { 'aria-current': 'page' as const })}>
          {name}
        </a>
      ))}
    </nav>
  );
}
