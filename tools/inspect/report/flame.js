{const get=id=>document.getElementById(id),
 boxes=[...get('graph').children].map(d=>({d,
  left:parseFloat(d.style.left),width:parseFloat(d.style.width),
  row:parseFloat(d.style.top)})),
 holds=(x,y)=>{const middle=y.left+y.width/2;
  return x.row<=y.row&&x.left<middle&&middle<x.left+x.width};
function enlarge(z){for(const b of boxes){
 const above=b!==z&&holds(b,z);
 b.d.hidden=!above&&!holds(z,b);
 b.d.classList.toggle('above',above);
 b.d.style.left=above?'0%':100*(b.left-z.left)/z.width+'%';
 b.d.style.width=above?'100%':100*b.width/z.width+'%'}
 get('figures').textContent=z.d.title}
for(const b of boxes)b.d.onclick=()=>enlarge(b);
enlarge(boxes[0]);
get('zoom').hidden=false;
get('zoom').lastElementChild.oninput=e=>{const part=e.target.value;
 for(const b of boxes)b.d.classList.toggle('match',
  part!==''&&b.d.textContent.includes(part))}}
