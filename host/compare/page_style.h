#pragma once

namespace cleave {

/// On a narrow screen each row of the table becomes a block of its own, a line for each figure.
constexpr const char* kPageStyle = R"(
:root{color-scheme:light dark;--bar:#0072b2;--range:#111;--line:#ccc;--soft:#f3f3f3;--bad:#b00020}
@media (prefers-color-scheme:dark){
:root{--bar:#4aa3df;--range:#eee;--line:#444;--soft:#222;--bad:#ff8a80}
body{background:#121212;color:#e8e8e8}}
body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:70rem}
h1{font-size:1.4rem;margin:.2em 0}
h2{font-size:1.1rem;margin:1.6em 0 .4em;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1em 0 .2em}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.3em .6em;border-bottom:1px solid var(--line);vertical-align:top}
th:first-child,td:first-child{text-align:left}
small{opacity:.75;white-space:nowrap}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);padding:.5em;margin:.3em 0;
font-size:.8rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1em;margin:0}
dd{margin:0;overflow-wrap:anywhere}
summary{cursor:pointer;padding:.3em 0}
.bad{color:var(--bad)}
@media (max-width:44rem){
dl{grid-template-columns:1fr}
dt{font-weight:600}
.figures,.figures tbody,.figures tr,.figures td{display:block}
.figures thead{display:none}
.figures tr{border-bottom:2px solid var(--line);padding:.4em 0}
.figures td{border:0;padding:.1em 0;display:flex;justify-content:space-between;gap:1em}
.figures td:first-child{font-weight:600}
.figures td[data-name]::before{content:attr(data-name);opacity:.75}
}
)";

}  // namespace cleave
